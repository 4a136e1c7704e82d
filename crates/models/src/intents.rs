//! Intent head: a linear classifier over sentence vectors, trained on CLINC150.
//!
//! The head is compiled in (230 kB); it is useless without the encoder that it was trained with.

use ndarray::{Array1, Array2, ArrayView1};

use crate::{Error, weights::Tensors};

/// The trained head; `training/train_intents.py` makes it.
const HEAD: &[u8] = include_bytes!("../data/intents.safetensors");
/// Name of the file in messages.
const FILE: &str = "intents.safetensors";
/// Class of queries that belong to no intent.
const OUT_OF_SCOPE: &str = "oos";

/// Classifier of sentence vectors.
#[derive(Debug)]
pub struct IntentHead {
    weight: Array2<f32>,
    bias: Array1<f32>,
    labels: Vec<String>,
    threshold: f32,
}

/// The most likely intent of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    /// Label of the intent, also where it is out of scope.
    pub label: String,
    /// Probability of that label.
    pub confidence: f32,
    /// Whether the text probably belongs to no known intent.
    pub is_out_of_scope: bool,
}

impl IntentHead {
    /// The head that is compiled in.
    pub fn built_in() -> Result<Self, Error> {
        Self::parse(HEAD)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let tensors = Tensors::parse(FILE, bytes)?;
        let (weight, bias) = (tensors.matrix("weight")?, tensors.vector("bias")?);
        let damaged = |why: &str| Error::damaged(FILE, why.to_owned());
        let text = |name: &str| tensors.metadata.get(name).map_or("", String::as_str);
        let labels: Vec<String> =
            serde_json::from_str(text("labels")).map_err(|_| damaged("it has no labels"))?;
        let threshold = text("threshold").parse().map_err(|_| damaged("it has no threshold"))?;
        match weight.nrows() == labels.len() && bias.len() == labels.len() {
            true => Ok(Self { weight, bias, labels, threshold }),
            false => Err(damaged("labels and weights differ in number")),
        }
    }

    /// Labels of all intents.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(String::as_str).filter(|label| *label != OUT_OF_SCOPE)
    }

    /// Intent of a text, by its unit vector. `None` if the vector is of another encoder.
    pub fn classify(&self, vector: &[f32]) -> Option<Intent> {
        if vector.len() != self.weight.ncols() {
            return None;
        }
        let scores = self.weight.dot(&ArrayView1::from(vector)) + &self.bias;
        let most = scores.fold(f32::NEG_INFINITY, |most, score| most.max(*score));
        let shares = scores.mapv(|score| (score - most).exp());
        let sum = shares.sum();
        let of_intents =
            shares.iter().zip(&self.labels).filter(|(_, label)| *label != OUT_OF_SCOPE);
        let (share, label) = of_intents.max_by(|a, b| a.0.total_cmp(b.0))?;
        let confidence = share / sum;
        let is_out_of_scope = confidence < self.threshold;
        Some(Intent { label: label.clone(), confidence, is_out_of_scope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_head_knows_its_intents() {
        let head = IntentHead::built_in().expect("the head was trained");
        assert_eq!(head.labels().count(), 150);
        assert_eq!(head.classify(&[0.0; 3]), None);
        let intent = head.classify(&[0.0; 384]).expect("a vector of the right length");
        assert!(intent.is_out_of_scope, "{intent:?}");
    }
}
