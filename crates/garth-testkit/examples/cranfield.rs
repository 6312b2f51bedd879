//! Measures search on the Cranfield collection, and what other ways to use the same index would give:
//! `cargo run -p garth-testkit --example cranfield FOLDER`.
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]

use std::collections::BTreeMap;
use std::path::Path;

use garth::model::Ino;
use garth::search::fts::{self, Change};
use garth::search::{Edit, Question};
use garth_testkit::cranfield::{Cranfield, Document};
use rusqlite::Connection;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let folder =
        std::env::args().nth(1).ok_or("name the folder with cran.all.1400, cran.qry and cranqrel")?;
    let collection = Cranfield::load(Path::new(&folder))?;
    let with_title =
        |document: &Document| format!("# {}{}\n{}", document.title, document.author, document.text);
    let conn = index(&collection, with_title)?;
    print("a file: title, author and abstract; its best passage", &collection, |text| search(&conn, text))?;
    print("the same, the sum of its passages", &collection, |text| sums(&conn, text, 1.0))?;
    print("the same, each further passage counts half", &collection, |text| sums(&conn, text, 0.5))?;
    let conn = index(&collection, |document| document.text.clone())?;
    print("a file: the abstract alone; its best passage", &collection, |text| search(&conn, text))?;
    Ok(())
}

fn print(
    name: &str,
    collection: &Cranfield,
    rank: impl FnMut(&str) -> rusqlite::Result<Vec<u32>>,
) -> Result<()> {
    let quality = collection.evaluate(rank)?;
    println!("nDCG@10 {:.4}  recall@100 {:.4}  {name}", quality.ndcg_at_10, quality.recall_at_100);
    Ok(())
}

fn index(collection: &Cranfield, text: impl Fn(&Document) -> String) -> Result<Connection> {
    let conn = Connection::open_in_memory()?;
    fts::create(&conn)?;
    for document in &collection.documents {
        let text = text(document);
        let edit = Edit::replace(0, text.len() as u64);
        let ino = Ino(document.id.into());
        let change = Change { ino, searchable: true, content_type: None, edit };
        fts::apply(&conn, &[change], &mut |_, range| {
            Ok::<_, rusqlite::Error>(text.as_bytes()[range.start as usize..range.end as usize].to_vec())
        })?;
    }
    Ok(conn)
}

fn search(conn: &Connection, text: &str) -> rusqlite::Result<Vec<u32>> {
    let Some(question) = Question::parse(text) else { return Ok(Vec::new()) };
    let found = fts::search(conn, &question, 100, &mut |ino| Ok::<_, rusqlite::Error>(Some(ino)))?;
    Ok(found.iter().map(|found| found.file.0 as u32).collect())
}

/// Ranks files by the sum of their passages' BM25, each weighing `decay` of the one before it.
fn sums(conn: &Connection, text: &str, decay: f64) -> rusqlite::Result<Vec<u32>> {
    let Some(question) = Question::parse(text) else { return Ok(Vec::new()) };
    let mut statement = conn.prepare_cached(
        "SELECT passage.ino, passage_text.rank FROM passage_text JOIN passage ON passage.id = passage_text.rowid
         WHERE passage_text MATCH ?1 ORDER BY passage_text.rank",
    )?;
    let mut rows = statement.query([question.any_term()])?;
    let mut files: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (sum, weight) = files.entry(row.get(0)?).or_insert((0.0, 1.0));
        *sum -= row.get::<_, f64>(1)? * *weight;
        *weight *= decay;
    }
    let mut ranked: Vec<_> = files.into_iter().map(|(id, (sum, _))| (sum, id)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    Ok(ranked.into_iter().map(|(_, id)| id).collect())
}
