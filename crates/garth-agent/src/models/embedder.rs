//! Embedding services, which turn texts into vectors, and the check of their answers.

use std::fmt;

use async_trait::async_trait;

use super::failure::ServiceError;
use super::vectors::Vector;

/// Limit on the numbers of a vector.
pub const MAX_DIMENSIONS: usize = 8192;

/// Answer of an embedding service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// Vectors of the texts, in their order.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of the texts, if the service reports them.
    pub tokens: Option<u64>,
}

/// Interface of an embedding service.
#[async_trait]
pub trait Embedder: fmt::Debug + Send + Sync {
    /// Returns the name of the model. Vectors of different models are not compared.
    fn model(&self) -> &str;

    /// Returns a vector for each text.
    ///
    /// # Errors
    /// The reason why the service returned none.
    async fn embed(&self, texts: &[String]) -> Result<Embeddings, ServiceError>;
}

/// Returns the vectors of an answer about this number of texts.
///
/// # Errors
/// `Invalid` for another number of vectors, for vectors of different lengths, and for a vector that has no
/// direction, too many numbers, or one that is not finite.
pub(super) fn vectors_in(answer: &Embeddings, texts: usize) -> Result<Vec<Vector>, ServiceError> {
    if answer.vectors.len() != texts {
        return Err(ServiceError::Invalid("another number of vectors than of texts"));
    }
    let length = answer.vectors.first().map_or(0, Vec::len);
    if length > MAX_DIMENSIONS || answer.vectors.iter().any(|numbers| numbers.len() != length) {
        return Err(ServiceError::Invalid("vectors of a wrong length"));
    }
    let vectors: Option<Vec<Vector>> = answer.vectors.iter().map(|numbers| Vector::of(numbers)).collect();
    vectors.ok_or(ServiceError::Invalid("a vector of zeros, or with a number that is not finite"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_vectors_that_cannot_be_compared() {
        let checked = |vectors: Vec<Vec<f32>>| vectors_in(&Embeddings { vectors, tokens: None }, 2);
        assert_eq!(checked(vec![vec![1.0, 0.0], vec![0.0, 1.0]]).unwrap().len(), 2);
        let good = || vec![1.0, 0.0];
        let long = || vec![1.0; MAX_DIMENSIONS + 1];
        for (vectors, why) in [
            (Vec::new(), "number of vectors"),
            (vec![good()], "number of vectors"),
            (vec![good(), good(), good()], "number of vectors"),
            (vec![good(), vec![1.0]], "wrong length"),
            (vec![long(), long()], "wrong length"),
            (vec![Vec::new(), Vec::new()], "zeros"),
            (vec![good(), vec![0.0, 0.0]], "zeros"),
            (vec![vec![1.0, f32::NAN], good()], "not finite"),
            (vec![vec![1.0, f32::INFINITY], good()], "not finite"),
        ] {
            let error = checked(vectors).unwrap_err();
            assert!(matches!(error, ServiceError::Invalid(found) if found.contains(why)), "{why}: {error}");
        }
    }
}
