//! Sentence encoder: BERT, mean of the token vectors, unit length.
//!
//! Texts of a batch are laid end to end, not padded: every linear layer is one product over all
//! tokens, and only attention looks at one text at a time. So a vector does not depend on the batch.

use std::path::Path;

use ndarray::{Array1, Array2, ArrayView2, Axis, concatenate, s};

use crate::{Error, Model, catalogue, tokenizer::Tokenizer, weights::Tensors};

/// Variance floor of layer normalisation.
const EPSILON: f32 = 1e-12;
/// Tokens encoded at once; bounds the memory of a batch to some tens of MB.
const MAX_BATCH_TOKENS: usize = 2_048;

/// A model in memory.
#[derive(Debug)]
pub struct Encoder {
    tokenizer: Tokenizer,
    max_tokens: usize,
    heads: usize,
    words: Array2<f32>,
    /// Position vectors, with the vector of the first token type added.
    positions: Array2<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Linear {
    weight: Array2<f32>,
    bias: Array1<f32>,
}

#[derive(Debug)]
struct Norm {
    weight: Array1<f32>,
    bias: Array1<f32>,
}

#[derive(Debug)]
struct Layer {
    /// Query, key and value in one product.
    attention: Linear,
    mix: Linear,
    mix_norm: Norm,
    widen: Linear,
    narrow: Linear,
    norm: Norm,
}

impl Encoder {
    /// Reads a model from its folder, after checking the digests of its files.
    pub fn open(model: &Model, folder: &Path) -> Result<Self, Error> {
        let mut weights = Vec::new();
        let mut vocabulary = Vec::new();
        for file in &model.files {
            let bytes = catalogue::read_checked(folder, file)?;
            match file.name.as_str() {
                catalogue::WEIGHTS => weights = bytes,
                _ => vocabulary = bytes,
            }
        }
        let vocabulary = String::from_utf8(vocabulary)
            .map_err(|_| Error::damaged(catalogue::VOCABULARY, "it is not UTF-8".to_owned()))?;
        Self::new(model, &weights, &vocabulary)
    }

    /// Model from the content of its files.
    pub fn new(model: &Model, weights: &[u8], vocabulary: &str) -> Result<Self, Error> {
        let tensors = Tensors::parse(catalogue::WEIGHTS, weights)?;
        let tokenizer = Tokenizer::new(vocabulary)?;
        let words = tensors.matrix("embeddings.word_embeddings.weight")?;
        let mut positions = tensors.matrix("embeddings.position_embeddings.weight")?;
        let types = tensors.matrix("embeddings.token_type_embeddings.weight")?;
        let width = words.ncols();
        let damaged = |why: &str| Err(Error::damaged(catalogue::WEIGHTS, why.to_owned()));
        if words.nrows() < tokenizer.len() {
            return damaged("it has fewer word vectors than the vocabulary has pieces");
        }
        if positions.ncols() != width
            || types.dim() != (2, width)
            || !width.is_multiple_of(model.heads)
        {
            return damaged("its embeddings have different widths");
        }
        positions += &types.row(0);
        let norm = Norm::read(&tensors, "embeddings.LayerNorm", width)?;
        let layers = (0..)
            .map(|number| format!("encoder.layer.{number}"))
            .take_while(|name| tensors.has(&format!("{name}.output.dense.weight")))
            .map(|name| Layer::read(&tensors, &name, width))
            .collect::<Result<Vec<_>, _>>()?;
        if layers.is_empty() {
            return damaged("it has no layers");
        }
        let max_tokens = model.max_tokens.min(positions.nrows());
        let heads = model.heads;
        Ok(Self { tokenizer, max_tokens, heads, words, positions, norm, layers })
    }

    /// Length of the vectors.
    pub fn dimension(&self) -> usize {
        self.words.ncols()
    }

    /// Vectors of texts, each the mean of its token vectors, in the same order. They are not
    /// normalised; see [`normalise`]. What is beyond the model's token limit is not read.
    pub fn encode(&self, texts: &[&str]) -> Vec<Vec<f32>> {
        let ids: Vec<_> =
            texts.iter().map(|text| self.tokenizer.encode(text, self.max_tokens)).collect();
        let mut vectors = Vec::with_capacity(texts.len());
        let mut rest = &ids[..];
        while !rest.is_empty() {
            let mut tokens = 0;
            let fits = |row: &&Vec<u32>| {
                tokens += row.len();
                tokens <= MAX_BATCH_TOKENS
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (batch, later) = rest.split_at(count);
            self.forward(batch, &mut vectors);
            rest = later;
        }
        vectors
    }

    /// Number of tokens of a text, without the special ones.
    pub fn count_tokens(&self, text: &str) -> usize {
        self.tokenizer.encode(text, usize::MAX - 2).len() - 2
    }

    fn forward(&self, batch: &[Vec<u32>], vectors: &mut Vec<Vec<f32>>) {
        let spans: Vec<_> = batch
            .iter()
            .scan(0, |start, row| {
                let span = *start..*start + row.len();
                *start = span.end;
                Some(span)
            })
            .collect();
        let total = spans.last().map_or(0, |span| span.end);
        let mut x = Array2::zeros((total, self.dimension()));
        for (row, span) in batch.iter().zip(&spans) {
            for (position, id) in row.iter().enumerate() {
                let mut token = x.row_mut(span.start + position);
                token += &self.words.row(*id as usize);
                token += &self.positions.row(position);
            }
        }
        self.norm.apply(&mut x);
        for layer in &self.layers {
            let qkv = layer.attention.apply(&x.view());
            let mut mixed = Array2::zeros(x.dim());
            for span in &spans {
                let part = qkv.slice(s![span.clone(), ..]);
                mixed.slice_mut(s![span.clone(), ..]).assign(&attend(&part, self.heads));
            }
            x += &layer.mix.apply(&mixed.view());
            layer.mix_norm.apply(&mut x);
            let mut wide = layer.widen.apply(&x.view());
            wide.mapv_inplace(gelu);
            x += &layer.narrow.apply(&wide.view());
            layer.norm.apply(&mut x);
        }
        let mean = |span: &std::ops::Range<usize>| {
            let tokens = x.slice(s![span.clone(), ..]);
            tokens.mean_axis(Axis(0)).map(|mean| mean.to_vec()).unwrap_or_default()
        };
        vectors.extend(spans.iter().map(mean));
    }
}

/// Scales a vector to unit length. A zero vector stays as it is.
pub fn normalise(vector: &mut [f32]) {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
}

impl Layer {
    fn read(tensors: &Tensors<'_>, name: &str, width: usize) -> Result<Self, Error> {
        let linear = |part: &str| Linear::read(tensors, &format!("{name}.{part}"));
        let [query, key, value] = [
            linear("attention.self.query")?,
            linear("attention.self.key")?,
            linear("attention.self.value")?,
        ];
        let weights = [query.weight.view(), key.weight.view(), value.weight.view()];
        let biases = [query.bias.view(), key.bias.view(), value.bias.view()];
        let damaged =
            || Error::damaged(catalogue::WEIGHTS, format!("layer `{name}` has uneven shapes"));
        let attention = Linear {
            weight: concatenate(Axis(0), &weights).map_err(|_| damaged())?,
            bias: concatenate(Axis(0), &biases).map_err(|_| damaged())?,
        };
        let layer = Self {
            attention,
            mix: linear("attention.output.dense")?,
            mix_norm: Norm::read(tensors, &format!("{name}.attention.output.LayerNorm"), width)?,
            widen: linear("intermediate.dense")?,
            narrow: linear("output.dense")?,
            norm: Norm::read(tensors, &format!("{name}.output.LayerNorm"), width)?,
        };
        let inner = layer.widen.weight.nrows();
        let fits = layer.attention.weight.dim() == (3 * width, width)
            && layer.mix.weight.dim() == (width, width)
            && layer.widen.weight.ncols() == width
            && layer.narrow.weight.dim() == (width, inner);
        if fits { Ok(layer) } else { Err(damaged()) }
    }
}

impl Linear {
    fn read(tensors: &Tensors<'_>, name: &str) -> Result<Self, Error> {
        let weight = tensors.matrix(&format!("{name}.weight"))?;
        let bias = tensors.vector(&format!("{name}.bias"))?;
        match weight.nrows() == bias.len() {
            true => Ok(Self { weight, bias }),
            false => Err(Error::damaged(catalogue::WEIGHTS, format!("`{name}` has uneven shapes"))),
        }
    }

    fn apply(&self, x: &ArrayView2<'_, f32>) -> Array2<f32> {
        let mut product = x.dot(&self.weight.t());
        product += &self.bias;
        product
    }
}

impl Norm {
    fn read(tensors: &Tensors<'_>, name: &str, width: usize) -> Result<Self, Error> {
        let weight = tensors.vector(&format!("{name}.weight"))?;
        let bias = tensors.vector(&format!("{name}.bias"))?;
        match weight.len() == width && bias.len() == width {
            true => Ok(Self { weight, bias }),
            false => Err(Error::damaged(catalogue::WEIGHTS, format!("`{name}` has another width"))),
        }
    }

    fn apply(&self, x: &mut Array2<f32>) {
        for mut row in x.rows_mut() {
            let mean = row.mean().unwrap_or(0.0);
            row -= mean;
            let variance = row.dot(&row) / row.len() as f32;
            row /= (variance + EPSILON).sqrt();
            row *= &self.weight;
            row += &self.bias;
        }
    }
}

/// Attention of one text over its own tokens; `qkv` has queries, keys and values side by side.
fn attend(qkv: &ArrayView2<'_, f32>, heads: usize) -> Array2<f32> {
    let (tokens, width) = (qkv.nrows(), qkv.ncols() / 3);
    let head = width / heads;
    let scale = 1.0 / (head as f32).sqrt();
    let mut mixed = Array2::zeros((tokens, width));
    for number in 0..heads {
        let part = |which: usize| {
            let start = which * width + number * head;
            qkv.slice(s![.., start..start + head])
        };
        let mut scores = part(0).dot(&part(1).t());
        for mut row in scores.rows_mut() {
            let most = row.fold(f32::NEG_INFINITY, |most, value| most.max(*value));
            row.mapv_inplace(|value| ((value - most) * scale).exp());
            let sum = row.sum();
            row /= sum;
        }
        let start = number * head;
        mixed.slice_mut(s![.., start..start + head]).assign(&scores.dot(&part(2)));
    }
    mixed
}

/// Gaussian error linear unit, exact form.
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// Error function by formula 7.1.26 of Abramowitz and Stegun; its error is below 1.5e-7.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t
        + 0.254_829_6)
        * t;
    (1.0 - series * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_is_exact_enough() {
        for (x, wanted) in
            [(0.0, 0.0), (0.5, 0.520_499_9), (-1.0, -0.842_700_8), (3.0, 0.999_977_9)]
        {
            assert!((erf(x) - wanted).abs() < 5e-7, "erf({x}) = {}", erf(x));
        }
    }
}
