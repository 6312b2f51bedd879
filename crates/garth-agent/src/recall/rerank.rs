//! Comparison of candidates with the question by an embedding service. Its vectors replace the part of the
//! scores that the search takes from the table of the program.

use std::borrow::Cow;

use super::candidates::{RankedCandidates, Reach};
use super::embedding::Embedding;
use super::recaller::Recaller;
use super::request::Recall;
use super::unit::{Candidate, Unit};
use crate::models::{NoVectors, ServiceError};
use garth_engine::error::Result;
use garth_engine::model::SearchMode;
use garth_engine::text::question::Question;
use garth_engine::text::secret::masked;

/// Maximum number of texts that are compared.
const COMPARED: usize = 100;
/// Maximum number of bytes of a text that the service gets, 2 KiB: about as many tokens as small models read.
const TEXT: usize = 2 << 10;
/// Gain of a text whose cosine is one standard deviation larger.
const MEANING: f64 = 0.1;
/// Part of a neighbour's gain that counts for a text, as in the search.
const MEANING_BESIDE: f64 = 0.3;
/// Standard deviation below which the cosines say nothing: numbers of one byte are not more exact.
const LEAST_DEVIATION: f64 = 0.005;

impl Recaller<'_> {
    /// Returns the candidates for a question, compared by the embedding service, if there is one. If it does
    /// not answer, they are the same as without it.
    pub(super) async fn candidates(&self, asked: &Recall, question: &Question) -> Result<RankedCandidates> {
        let mut failed = None;
        if let Some(embedding) = &self.embedding
            && asked.mode == SearchMode::Meaning
        {
            let mut gathered = self.gather(asked, question, Reach::COMPARED).await?;
            failed = self.compare(embedding, asked, &mut gathered.candidates).await;
            if failed.is_none() {
                return Ok(gathered.limited(asked, question).fitting_or_nearest(asked.mode));
            }
        }
        let mut gathered = self.gather(asked, question, Reach::shown(asked)).await?;
        gathered.is_without_service = failed.is_some();
        gathered.notes.extend(failed);
        Ok(gathered.limited(asked, question).fitting_or_nearest(asked.mode))
    }

    /// Gives the candidates their new scores, and puts them in the new order. Returns a note if that failed.
    async fn compare(
        &self,
        embedding: &Embedding<'_>,
        asked: &Recall,
        candidates: &mut [Candidate],
    ) -> Option<Cow<'static, str>> {
        let compared = most_likely(candidates);
        if compared.len() < 2 {
            // The gain is relative to the other texts.
            return None;
        }
        // The question can contain a secret as well.
        let question = start_of(&masked(&asked.question)).to_owned();
        let mut texts = vec![question];
        for (candidate, unit) in &compared {
            texts.push(text_of(&candidates[*candidate].parts.units[*unit]).to_owned());
        }
        match self.cosines(embedding, &texts).await {
            Ok(cosines) => {
                rank(candidates, &compared, &cosines);
                None
            }
            Err(reason) => {
                reason.log();
                Some(Cow::Owned(reason.note()))
            }
        }
    }

    /// Returns the cosine of the first text with each of the others.
    async fn cosines(&self, embedding: &Embedding<'_>, texts: &[String]) -> Result<Vec<f64>, NoVectors> {
        let vectors = embedding.vectors(&self.paths.account, &self.env, texts).await?;
        let Some((question, others)) = vectors.split_first() else { return Ok(Vec::new()) };
        let cosines: Option<Vec<f64>> = others.iter().map(|other| question.cosine(other)).collect();
        cosines.ok_or_else(|| {
            // Another model has the name now. The next recall computes all vectors again.
            embedding.forget(&self.paths.account);
            ServiceError::Invalid("vectors of another length than before").into()
        })
    }
}

/// Returns the places of the found parts with the best scores: their candidates, and units of these.
fn most_likely(candidates: &[Candidate]) -> Vec<(usize, usize)> {
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (place, candidate) in candidates.iter().enumerate() {
        let units = candidate.parts.units.iter().enumerate();
        // A service may refuse an empty text.
        let found = units.filter(|(_, unit)| unit.is_found && !text_of(unit).is_empty());
        places.extend(found.map(|(unit, _)| (place, unit)));
    }
    let rank = |(candidate, unit): &(usize, usize)| candidates[*candidate].parts.units[*unit].rank;
    places.sort_by(|one, other| rank(other).total_cmp(&rank(one)));
    places.truncate(COMPARED);
    places
}

/// Returns the text of a unit that is compared: the start of its longest form, which seldom depends on the
/// question. So its vector can be used again.
fn text_of(unit: &Unit) -> &str {
    // Messages begin with a colon, after which the speaker is shown.
    let text = unit.forms.first().map_or("", |form| form.text.as_str());
    start_of(text.strip_prefix(": ").unwrap_or(text).trim())
}

fn start_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(text.len().min(TEXT))]
}

/// Replaces the gain for meaning of all candidates, and orders them and their parts by it. `cosines` are
/// those of the texts at `compared`; other texts gain nothing.
fn rank(candidates: &mut [Candidate], compared: &[(usize, usize)], cosines: &[f64]) {
    let Some(gains) = gains(cosines) else { return };
    let mut own: Vec<Vec<f64>> =
        candidates.iter().map(|candidate| vec![0.0; candidate.parts.units.len()]).collect();
    for ((candidate, unit), gain) in compared.iter().zip(&gains) {
        own[*candidate][*unit] = *gain;
    }
    for (candidate, own) in candidates.iter_mut().zip(own) {
        add_gains(candidate, &own);
    }
    // Stable: equals stay in the order of the search.
    candidates.sort_by(|one, other| other.rank.total_cmp(&one.rank));
}

/// Adds the gains of its units to a candidate.
fn add_gains(candidate: &mut Candidate, own: &[f64]) {
    let units = &candidate.parts.units;
    let beside = |unit| near(units, unit).map(|other| own[other]).fold(0.0, f64::max);
    let gained: Vec<f64> =
        own.iter().enumerate().map(|(unit, own)| own + MEANING_BESIDE * beside(unit)).collect();
    for (unit, gained) in candidate.parts.units.iter_mut().zip(gained) {
        if unit.is_found {
            let words = unit.score_parts.words + unit.score_parts.neighbours;
            unit.score_parts.meaning = gained.min((1.0 - words).max(0.0));
            // The score has an upper limit, the rank has none.
            unit.rank = words + gained;
        }
    }
    candidate.parts.units.sort_by(|one, other| other.rank.total_cmp(&one.rank));
    settle(candidate);
}

/// Returns the gain of each text: by the standard deviations that its cosine is above a floor, which is one
/// standard deviation below the mean of all. Models differ in the cosines of unrelated texts and in their
/// range, so neither a fixed floor nor a fixed unit fits all. Returns `None` if the cosines do not differ.
fn gains(cosines: &[f64]) -> Option<Vec<f64>> {
    let count = cosines.len().max(1) as f64;
    let mean = cosines.iter().sum::<f64>() / count;
    let variance = cosines.iter().map(|cosine| (cosine - mean).powi(2)).sum::<f64>() / count;
    let deviation = variance.sqrt();
    if deviation < LEAST_DEVIATION {
        return None;
    }
    Some(cosines.iter().map(|cosine| MEANING * ((cosine - mean) / deviation + 1.0).max(0.0)).collect())
}

/// Returns the units of the same file that touch a unit.
fn near(units: &[Unit], unit: usize) -> impl Iterator<Item = usize> {
    let place = |unit: &Unit| unit.forms.first().map(|form| (form.file, form.lines.clone()));
    let own = place(&units[unit]);
    units.iter().enumerate().filter_map(move |(other, value)| {
        let (own, near) = (own.as_ref()?, place(value)?);
        let touches = near.1.end == own.1.start || own.1.end == near.1.start;
        (other != unit && near.0 == own.0 && touches).then_some(other)
    })
}

/// Gives a candidate the rank of its best unit. Gives units that were not found the rank of what they are
/// beside.
fn settle(candidate: &mut Candidate) {
    let Some(best) = candidate.found().next() else { return };
    (candidate.rank, candidate.score_parts) = (best.rank, best.score_parts);
    let units = &candidate.parts.units;
    let best_beside = |unit| {
        let found = near(units, unit).filter(|other| units[*other].is_found);
        found.map(|other| units[other].rank).fold(0.0, f64::max)
    };
    let beside: Vec<f64> = (0..units.len()).map(best_beside).collect();
    for (unit, beside) in candidate.parts.units.iter_mut().zip(beside) {
        if !unit.is_found {
            // A layer of a memory belongs to the memory as a whole.
            unit.rank = if unit.speaker.is_some() { beside } else { candidate.rank };
        }
    }
    for (name, score) in &mut candidate.found_in {
        let files = &candidate.parts.files;
        let is_in = |unit: &&Unit| {
            let file = unit.forms.first().and_then(|form| files.get(form.file));
            unit.is_found && file.and_then(|file| file.path.name()) == Some(name.as_str())
        };
        let scores = candidate.parts.units.iter().filter(is_in).map(|unit| unit.score_parts.sum());
        *score = scores.max_by(f64::total_cmp).unwrap_or(*score);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_relative_to_all_texts() {
        let narrow = gains(&[0.80, 0.82, 0.80, 0.80]).unwrap();
        let wide = gains(&[0.0, 0.4, 0.0, 0.0]).unwrap();
        for (narrow, wide) in narrow.iter().zip(&wide) {
            assert!((narrow - wide).abs() < 1e-9, "{narrow} {wide}");
        }
        assert!(wide[1] > 0.2 && wide[0] < 0.06, "{wide:?}");
        assert_eq!(gains(&[0.5, 0.501]), None);
        assert_eq!(gains(&[]), None);
    }
}
