//! Rounds that a search takes, in an index that counts them.

use std::future::Future;

use futures::FutureExt;

use super::{Counting, Index, crowd};
use crate::engine::search::local::Local;
use crate::engine::search::{
    Answer, CHUNK, Candidates, JudgedFiles, MAX_ROUNDS, Narrow, Narrowed, Newest, Passage, Place, Postings,
    SearchParams, Start, Started, WordForm, WordLimits, search,
};
use crate::engine::sqlite::fulltext::postings;
use crate::sqlite::DbError;
use crate::text::Question;
use crate::text::question::Term;

/// Index that counts rounds.
struct Distant<P> {
    index: P,
    rounds: usize,
    /// True to return what an engine may leave out, as one does that is a round trip away.
    returns_all: bool,
}

impl<P: Postings<Error = DbError>> Distant<P> {
    /// Returns the passages of each word as if it were asked for alone, so that no other one decides how many
    /// it has.
    fn start_of_each(&mut self, asked: &Start) -> Result<Started, DbError> {
        let found = self.index.start(asked).now_or_never().unwrap()?;
        let mut alone = |forms: &[WordForm], most: usize| {
            let (words, limits) = (vec![forms.to_vec()], vec![WordLimits { probe: most, most }]);
            let asked = Start { words, limits, asking: 1, near: Vec::new(), near_most: 1, reach: None };
            let found = self.index.start(&asked).now_or_never().unwrap()?;
            Ok::<Vec<Newest>, DbError>(found.words.concat())
        };
        let words = asked.words.iter().zip(&asked.limits);
        let words = words.map(|(forms, limits)| alone(forms, limits.most)).collect::<Result<_, _>>()?;
        let mut near = Vec::new();
        for form in &asked.near {
            near.extend(alone(std::slice::from_ref(form), asked.near_most)?);
        }
        Ok(Started { words, near, ..found })
    }
}

impl<P: Postings<Error = DbError>> Postings for Distant<P> {
    type Error = DbError;
    type File = P::File;

    fn has_words(&self) -> bool {
        self.index.has_words()
    }

    fn is_limited(&self) -> bool {
        self.index.is_limited()
    }

    fn start(&mut self, asked: &Start) -> impl Future<Output = Result<Started, DbError>> + Send {
        self.rounds += 1;
        let answer = match self.returns_all {
            false => self.index.start(asked).now_or_never().unwrap(),
            true => self.start_of_each(asked),
        };
        std::future::ready(answer)
    }

    fn narrow(&mut self, asked: &Narrow) -> impl Future<Output = Result<Narrowed, DbError>> + Send {
        self.rounds += 1;
        let mut answer = self.index.narrow(asked).now_or_never().unwrap();
        if self.returns_all
            && let Ok(Narrowed { subtree: Some(subtree), words }) = &mut answer
        {
            let place = Place::Passages(subtree.ids.clone());
            let all = Narrow { place, words: asked.words.clone() };
            *words = self.index.narrow(&all).now_or_never().unwrap().unwrap().words;
        }
        std::future::ready(answer)
    }

    fn candidates(
        &mut self,
        ids: &[i64],
        files: &mut JudgedFiles<Self::File>,
    ) -> impl Future<Output = Result<Candidates, DbError>> + Send {
        assert!(ids.len() <= CHUNK);
        self.rounds += 1;
        self.index.candidates(ids, files)
    }

    fn texts(
        &mut self,
        asked: &[(Self::File, Vec<Passage>)],
    ) -> impl Future<Output = Result<Vec<String>, DbError>> + Send {
        self.rounds += 1;
        self.index.texts(asked)
    }

    fn beginnings(
        &mut self,
        terms: &[Term],
    ) -> impl Future<Output = Result<Vec<Vec<WordForm>>, DbError>> + Send {
        self.rounds += 1;
        self.index.beginnings(terms)
    }
}

/// Returns the answer to a question with the number of rounds that it took.
fn ask(index: &Index, text: &str, within: Option<Vec<u64>>, returns_all: bool) -> (Answer<()>, usize) {
    let lookups = postings::Index::new(&index.conn).unwrap();
    let mut judge = Counting { within, ..Counting::default() };
    let question = Question::parse(text).unwrap();
    let (limit, per_file, neighbours, meaning, quick) = (10, 1, true, true, false);
    let asked = SearchParams { text, limit, per_file, neighbours, meaning, quick };
    let mut distant = Distant { index: Local::new(&lookups, &mut judge), rounds: 0, returns_all };
    let answer = search(&mut distant, &question, asked).now_or_never().unwrap().unwrap();
    (answer, distant.rounds)
}

#[test]
fn search_asks_at_most_four_rounds() {
    let many: String = (0..100).map(|n| format!(" heron{n}")).collect();
    let small = crowd(100, &many);
    let large = crowd(6_000, &many);
    for (index, within) in [
        (&small, None),
        (&large, None),
        (&large, Some((70..90).collect::<Vec<u64>>())),
        (&large, Some((1..4_000).collect())),
    ] {
        for question in ["rare", "heron1", "rare heron1 heron2", &format!("rare{many}"), &many] {
            for returns_all in [false, true] {
                let (answer, rounds) = ask(index, question, within.clone(), returns_all);
                let has_any = within.as_ref().is_none_or(|within| within.len() > 1_000);
                assert!(!answer.found.is_empty() || !has_any, "{question}");
                // In a scope without the only word of a question, its beginnings are looked for in the texts
                // of the scope as well: in three rounds.
                let most = if answer.found.is_empty() { 2 * MAX_ROUNDS + 3 } else { MAX_ROUNDS };
                assert!(rounds <= most, "{rounds} rounds in {within:?}: {question}");
            }
        }
    }
}

#[test]
fn further_candidates_take_one_round_each() {
    let index = crowd(3 * CHUNK as u64, "heron");
    let lookups = postings::Index::new(&index.conn).unwrap();
    let mut judge = Counting { refused: (1..=3 * CHUNK as u64 - 600).collect(), ..Counting::default() };
    let question = Question::parse("heron").unwrap();
    let (limit, per_file, neighbours, meaning, quick) = (1_000, 1, true, false, false);
    let asked = SearchParams { text: "heron", limit, per_file, neighbours, meaning, quick };
    let mut distant = Distant { index: Local::new(&lookups, &mut judge), rounds: 0, returns_all: false };
    let answer = search(&mut distant, &question, asked).now_or_never().unwrap().unwrap();
    assert_eq!((answer.found.len(), distant.rounds), (600, 1 + 3));
}

#[test]
fn hits_do_not_depend_on_extra_rows() {
    let words: String = (0..30).map(|n| format!(" heron{n}")).collect();
    // The most frequent passages are not only the newest ones.
    let levels = "' || iif(id % 7 = 0, ' heron1^2 heron2^2 heron2^3', '') || '";
    let index = crowd(9_000, &format!("{words}{levels}"));
    let message = "The rare boat sank twice yesterday. Where is heron1?";
    for within in [None, Some((70..90).collect::<Vec<u64>>()), Some((1..3_000).collect())] {
        let short = ["rare heron1", "rare heron1 file77", "heron1 heron2 heron3", "her fil"];
        for question in short.into_iter().chain([words.as_str(), message]) {
            let [local, distant] = [false, true].map(|all| ask(&index, question, within.clone(), all).0);
            assert_eq!(local, distant, "{question} in {within:?}");
        }
    }
}

#[test]
fn large_subtree_ignores_frequency_of_words() {
    // A third contain the rarer word, and a seventh the frequent one several times.
    let words = "heron' || iif(id % 7 = 0, ' heron^2 heron^3', '') || iif(id % 3 = 0, ' egret', '') || '";
    let index = crowd(9_000, words);
    for returns_all in [false, true] {
        let best = |end: u64| {
            let (answer, _) = ask(&index, "egret heron", Some((1..end).collect()), returns_all);
            answer.found[0].passage.ino.0
        };
        assert_eq!(best(200), 189, "the newest with the highest frequency");
        assert_eq!(best(2_000), 1_998, "the newest");
    }
}

#[test]
fn narrow_looks_in_given_passages() {
    let index = crowd(50, "heron");
    let lookups = postings::Index::new(&index.conn).unwrap();
    let mut judge = Counting::default();
    let words = vec![vec![WordForm::plain("rare".to_owned())], vec![WordForm::plain("heron".to_owned())]];
    let place = Place::Passages(vec![20, 10, 7]);
    let asked = Narrow { place, words };
    let found = Local::new(&lookups, &mut judge).narrow(&asked).now_or_never().unwrap().unwrap();
    assert_eq!(found.words, [vec![vec![20, 10]], vec![vec![20, 10, 7]]]);
    let asked = Start {
        words: vec![vec![WordForm::plain("heron".to_owned())]],
        limits: vec![WordLimits { probe: 3, most: 3 }],
        asking: 1,
        near: Vec::new(),
        near_most: 1,
        reach: None,
    };
    let found = Local::new(&lookups, &mut judge).start(&asked).now_or_never().unwrap().unwrap();
    assert_eq!(found.words, [[Newest { ids: vec![50, 49, 48], complete: false }]]);
}
