//! The Cranfield 1400 collection, questions with relevance judgements: it measures the effect of a change on
//! search.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// A document of the collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Number, from 1 to 1,400.
    pub id: u32,
    /// Title (`.T`).
    pub title: String,
    /// Author (`.A`).
    pub author: String,
    /// Abstract (`.W`). It begins with the title again.
    pub text: String,
}

/// A question of the collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Position in the file, counted from 1, which the judgements use. (The number after `.I` is another
    /// one.)
    pub id: u32,
    /// Text of the question.
    pub text: String,
}

/// Documents, questions, and the documents that answer each question.
#[derive(Clone, Debug)]
pub struct Cranfield {
    /// Documents in the order of their numbers.
    pub documents: Vec<Document>,
    /// Questions in the order of the file.
    pub queries: Vec<Query>,
    /// Documents with a grade above 0, by question.
    pub relevant: BTreeMap<u32, BTreeSet<u32>>,
}

/// Quality of rankings, as means over all questions that have an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// nDCG of the first 10, with binary relevance.
    pub ndcg_at_10: f64,
    /// Share of the relevant documents among the first 100.
    pub recall_at_100: f64,
}

impl Cranfield {
    /// Reads `cran.all.1400`, `cran.qry` and `cranqrel` in `folder`.
    ///
    /// # Errors
    /// A file is missing or does not have the form of the collection.
    pub fn load(folder: &Path) -> io::Result<Self> {
        let text = |name: &str| {
            std::fs::read_to_string(folder.join(name))
                .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
        };
        let documents = records(&text("cran.all.1400")?)?.into_iter().map(|(id, mut fields)| {
            let mut field = |name| fields.remove(&name).unwrap_or_default();
            Document { id, title: field('T'), author: field('A'), text: field('W') }
        });
        let queries = records(&text("cran.qry")?)?
            .into_iter()
            .zip(1..)
            .map(|((_, mut fields), id)| Query { id, text: fields.remove(&'W').unwrap_or_default() });
        Ok(Self {
            documents: documents.collect(),
            queries: queries.collect(),
            relevant: judgements(&text("cranqrel")?)?,
        })
    }

    /// Measures `rank`, which answers a question with numbers of documents, best first. Only the first 100
    /// count.
    ///
    /// # Errors
    /// Errors of `rank`.
    pub fn evaluate<E>(&self, mut rank: impl FnMut(&str) -> Result<Vec<u32>, E>) -> Result<Quality, E> {
        let (mut ndcg, mut recall, mut count) = (0.0, 0.0, 0.0);
        for query in &self.queries {
            // Questions without an answer have no defined recall.
            if let Some(relevant) = self.relevant.get(&query.id) {
                let ranked = rank(&query.text)?;
                ndcg += ndcg_at(10, &ranked, relevant);
                recall += recall_at(100, &ranked, relevant);
                count += 1.0;
            }
        }
        Ok(Quality { ndcg_at_10: ndcg / count, recall_at_100: recall / count })
    }
}

/// Returns the normalised discounted cumulative gain of the first `n` of `ranked`, with gain 1 for relevant
/// documents: 0 to 1.
pub fn ndcg_at(n: usize, ranked: &[u32], relevant: &BTreeSet<u32>) -> f64 {
    let discount = |place: usize| 1.0 / (place as f64 + 2.0).log2();
    let found = ranked.iter().take(n).enumerate().filter(|(_, id)| relevant.contains(id));
    let gain: f64 = found.map(|(place, _)| discount(place)).sum();
    // The best possible ranking has all relevant documents first.
    gain / (0..relevant.len().min(n)).map(discount).sum::<f64>()
}

/// Returns the share of the relevant documents among the first `n` of `ranked`: 0 to 1.
pub fn recall_at(n: usize, ranked: &[u32], relevant: &BTreeSet<u32>) -> f64 {
    let found: BTreeSet<_> = ranked.iter().take(n).filter(|id| relevant.contains(id)).collect();
    found.len() as f64 / relevant.len() as f64
}

type Fields = BTreeMap<char, String>;

/// Parses records. They begin with `.I number`, their fields with a dot and a capital letter alone on a line.
fn records(text: &str) -> io::Result<Vec<(u32, Fields)>> {
    let mut records: Vec<(u32, Fields)> = Vec::new();
    let mut name = ' ';
    for line in text.lines() {
        if let Some(id) = line.strip_prefix(".I ") {
            records.push((number(id)?, Fields::new()));
            continue;
        }
        let (_, fields) = records.last_mut().ok_or_else(|| invalid(line))?;
        match line.trim_end().as_bytes() {
            [b'.', field @ b'A'..=b'Z'] => name = char::from(*field),
            _ => {
                let field = fields.entry(name).or_default();
                field.push_str(line);
                field.push('\n');
            }
        }
    }
    Ok(records)
}

fn judgements(text: &str) -> io::Result<BTreeMap<u32, BTreeSet<u32>>> {
    let mut relevant: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let [query, document, grade] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(invalid(line));
        };
        // Grades of -1 mark documents without relevance.
        if grade.parse::<i32>().map_err(|_| invalid(line))? > 0 {
            relevant.entry(number(query)?).or_default().insert(number(document)?);
        }
    }
    Ok(relevant)
}

fn number(text: &str) -> io::Result<u32> {
    text.trim().parse().map_err(|_| invalid(text))
}

fn invalid(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not of the Cranfield collection: `{line}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_rankings_as_by_hand() {
        let relevant = BTreeSet::from([1, 2, 3]);
        let discount = |place: f64| 1.0 / (place + 1.0).log2();
        let ideal = discount(1.0) + discount(2.0) + discount(3.0);
        let ndcg = ndcg_at(10, &[9, 1, 8, 2], &relevant);
        assert!((ndcg - (discount(2.0) + discount(4.0)) / ideal).abs() < 1e-12);
        assert!((ndcg_at(10, &[3, 1, 2], &relevant) - 1.0).abs() < 1e-12);
        assert!((ndcg_at(1, &[9, 1], &relevant)).abs() < 1e-12);
        assert!((recall_at(3, &[9, 1, 8, 2], &relevant) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn reads_cranfield_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name, text| std::fs::write(dir.path().join(name), text).unwrap();
        write(
            "cran.all.1400",
            ".I 1\n.T\nwings\n.A\nfoo,b.\n.B\nj. 1\n.W\nwings\nlift .\n.I 2\n.T\n.W\nshells\n",
        );
        write("cran.qry", ".I 001\n.W\nwhat lifts\n.I 004\n.W\nwhat buckles\n");
        write("cranqrel", "1 1 2\n1 2 -1\n2 2 3 \n");
        let read = Cranfield::load(dir.path()).unwrap();
        let first = Document {
            id: 1,
            title: "wings\n".into(),
            author: "foo,b.\n".into(),
            text: "wings\nlift .\n".into(),
        };
        assert_eq!(read.documents[0], first);
        assert_eq!(read.documents.len(), 2);
        assert_eq!(read.queries[1], Query { id: 2, text: "what buckles\n".into() });
        assert_eq!(read.relevant, BTreeMap::from([(1, BTreeSet::from([1])), (2, BTreeSet::from([2]))]));
        let perfect = read.evaluate(|text| Ok::<_, ()>(vec![if text.contains("lifts") { 1 } else { 2 }]));
        assert_eq!(perfect, Ok(Quality { ndcg_at_10: 1.0, recall_at_100: 1.0 }));
        write("cranqrel", "1 1\n");
        assert_eq!(Cranfield::load(dir.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
