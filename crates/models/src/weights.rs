//! Tensors of a safetensors file.
//!
//! The file is read whole and each tensor is copied out once: mapping it would need `unsafe`, and a
//! file that changes under a mapping would change the model.

use std::collections::BTreeMap;

use ndarray::{Array1, Array2};
use serde::Deserialize;

use crate::Error;

/// Largest header; that of a model with thousands of tensors is below.
const MAX_HEADER_BYTES: u64 = 8 << 20;

/// A parsed safetensors file.
#[derive(Debug)]
pub(crate) struct Tensors<'a> {
    file: &'static str,
    header: BTreeMap<String, Tensor>,
    /// Free text of the header.
    pub(crate) metadata: BTreeMap<String, String>,
    data: &'a [u8],
}

#[derive(Debug, Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl<'a> Tensors<'a> {
    /// Parses the header; tensors are checked when they are taken.
    pub(crate) fn parse(file: &'static str, bytes: &'a [u8]) -> Result<Self, Error> {
        let damaged = |why: &str| Error::damaged(file, why.to_owned());
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| damaged("too short"))?;
        let length = u64::from_le_bytes(*length);
        let header = usize::try_from(length.min(MAX_HEADER_BYTES + 1)).unwrap_or(usize::MAX);
        if length > MAX_HEADER_BYTES || header > rest.len() {
            return Err(damaged("its header is longer than the file"));
        }
        let (header, data) = rest.split_at(header);
        let mut header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header)
            .map_err(|error| Error::damaged(file, format!("header: {error}")))?;
        let metadata = header.remove("__metadata__").unwrap_or_default();
        let metadata = serde_json::from_value(metadata).unwrap_or_default();
        let header = header
            .into_iter()
            .map(|(name, value)| Ok((name, serde_json::from_value(value)?)))
            .collect::<Result<_, serde_json::Error>>()
            .map_err(|error| Error::damaged(file, format!("header: {error}")))?;
        Ok(Self { file, header, metadata, data })
    }

    /// Whether there is a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.header.contains_key(name)
    }

    /// A vector of 32-bit floats.
    pub(crate) fn vector(&self, name: &str) -> Result<Array1<f32>, Error> {
        let (shape, values) = self.floats(name)?;
        match shape {
            [length] if *length == values.len() => Ok(Array1::from_vec(values)),
            _ => Err(self.damaged(name, "is not a vector")),
        }
    }

    /// A matrix of 32-bit floats.
    pub(crate) fn matrix(&self, name: &str) -> Result<Array2<f32>, Error> {
        let (shape, values) = self.floats(name)?;
        let &[rows, columns] = shape else {
            return Err(self.damaged(name, "is not a matrix"));
        };
        Array2::from_shape_vec((rows, columns), values)
            .map_err(|_| self.damaged(name, "has another size than its shape"))
    }

    fn floats(&self, name: &str) -> Result<(&[usize], Vec<f32>), Error> {
        let tensor = self.header.get(name).ok_or_else(|| self.damaged(name, "is missing"))?;
        if tensor.dtype != "F32" {
            return Err(self.damaged(name, "does not consist of 32-bit floats"));
        }
        let (start, end) = tensor.data_offsets;
        let bytes = self.data.get(start..end);
        let bytes = bytes.ok_or_else(|| self.damaged(name, "is outside the file"))?;
        let (values, rest) = bytes.as_chunks::<4>();
        let values: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
        match rest.is_empty() && values.iter().all(|value| value.is_finite()) {
            true => Ok((&tensor.shape, values)),
            false => Err(self.damaged(name, "has values that are not finite numbers")),
        }
    }

    fn damaged(&self, name: &str, why: &str) -> Error {
        Error::damaged(self.file, format!("tensor `{name}` {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn a_matrix_is_read() {
        let header = r#"{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;
        let bytes = file(header, &[1f32.to_le_bytes(), 2f32.to_le_bytes()].concat());
        let matrix = Tensors::parse("x", &bytes).and_then(|tensors| tensors.matrix("a"));
        assert_eq!(matrix.expect("a matrix"), ndarray::array![[1.0, 2.0]]);
    }

    #[test]
    fn broken_files_are_refused_without_a_panic() {
        let tensor = |shape: &str, offsets: &str| {
            format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#)
        };
        let broken = [
            vec![],
            u64::MAX.to_le_bytes().to_vec(),
            file("not json", &[]),
            file(&tensor("[1,2]", "[0,800]"), &[0; 8]),
            file(&tensor("[1,2]", "[8,0]"), &[0; 8]),
            file(&tensor("[9,9]", "[0,8]"), &[0; 8]),
            file(&tensor("[1,1]", "[0,4]"), &f32::NAN.to_le_bytes()),
            file(&tensor("[-1]", "[0,4]"), &[0; 4]),
        ];
        for bytes in broken {
            let read = Tensors::parse("x", &bytes).and_then(|tensors| tensors.matrix("a"));
            assert!(read.is_err(), "{bytes:?}");
        }
    }
}
