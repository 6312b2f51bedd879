//! Rounds of a search on an index of this machine, which is read one row after the other. A row costs so
//! little here that each lookup first sees what those before it have found.

use std::future::{Future, ready};

use futures::FutureExt;

use super::files::{Files, FoundFile};
use super::filter::QueryFilter;
use super::forms::{Newest, Totals, WordForm};
use super::judge::{Judge, Shown};
use super::numbers::NumberSet;
use super::passage::Passage;
use super::postings::{
    Candidates, FEW, JudgedFiles, Narrow, Narrowed, Place, Postings, ScopeBound, Start, Started,
    SubtreePassages,
};
use super::run::{Answer, SearchParams, search};
use crate::error::{Error, ErrorKind};
use crate::model::SearchAnswer;
use crate::text::question::{Question, Term};

/// Called for each row that is read; an error ends the search.
pub type Step<'a, E> = &'a mut dyn FnMut() -> Result<(), E>;

/// Lookups in a local index, in the state of one transaction.
pub trait Lookups {
    /// Error of the storage.
    type Error: From<Error> + Send;

    /// Returns true if the index has [`Vocabulary::Words`](super::forms::Vocabulary::Words), too.
    fn has_words(&self) -> bool {
        false
    }

    /// Returns the size of the index.
    fn totals(&self) -> Totals;

    /// Returns the newest `most` passages that contain a form, newest first.
    fn newest(
        &self,
        form: &WordForm,
        most: usize,
        step: Step<'_, Self::Error>,
    ) -> Result<Vec<i64>, Self::Error>;

    /// Returns all passages that contain a form, newest first; `None` if they are `most` or more.
    fn few_with(
        &self,
        form: &WordForm,
        most: usize,
        step: Step<'_, Self::Error>,
    ) -> Result<Option<Vec<i64>>, Self::Error>;

    /// Returns those of `ids`, newest first, that contain a form.
    fn among(
        &self,
        form: &WordForm,
        ids: &[i64],
        step: Step<'_, Self::Error>,
    ) -> Result<Vec<i64>, Self::Error>;

    /// Returns the passages that contain a form and one of `rare`, of which there are few, in any order. All
    /// are in one vocabulary.
    fn beside(
        &self,
        form: &WordForm,
        rare: &[&WordForm],
        step: Step<'_, Self::Error>,
    ) -> Result<Vec<i64>, Self::Error>;

    /// Returns all passages, newest first; `None` if they are more than `most`.
    fn few(&self, most: usize, step: Step<'_, Self::Error>) -> Result<Option<Vec<i64>>, Self::Error>;

    /// Returns all passages of some files, newest first; `None` if they are more than `most`.
    fn few_passages_of(
        &self,
        inos: &[u64],
        most: usize,
        step: Step<'_, Self::Error>,
    ) -> Result<Option<Vec<i64>>, Self::Error>;

    /// Returns the newest `most` passages of some files, newest first, and true if these are all. Of files
    /// with more than [`ROWS`](super::postings::ROWS) passages in all, some of the newest may be missing.
    fn passages_of(
        &self,
        inos: &[u64],
        most: usize,
        step: Step<'_, Self::Error>,
    ) -> Result<(Vec<i64>, bool), Self::Error>;

    /// Returns the passages with these ids, in this order, without those that do not exist.
    fn passages(&self, ids: &[i64], step: Step<'_, Self::Error>) -> Result<Vec<Passage>, Self::Error>;

    /// Returns the forms of the first words of each vocabulary that begin like a term.
    fn beginnings(&self, term: &Term) -> Result<Vec<WordForm>, Self::Error>;
}

/// Rounds of a search in a local index.
pub struct Local<'a, L, J> {
    lookups: &'a L,
    judge: &'a mut J,
}

impl<'a, L: Lookups, J: Judge<Error = L::Error>> Local<'a, L, J> {
    /// Returns the rounds of a search that shows what `judge` allows.
    pub fn new(lookups: &'a L, judge: &'a mut J) -> Self {
        Self { lookups, judge }
    }

    /// Searches for a question.
    ///
    /// # Errors
    /// Errors of the index and the judge.
    pub fn search(
        mut self,
        question: &Question,
        asked: SearchParams<'_>,
    ) -> Result<Answer<J::File>, L::Error> {
        // Local rows are read without waiting, so the future is done at the first poll.
        let never = || Err(Error::new(ErrorKind::Unavailable, "local rows are read without waiting").into());
        search(&mut self, question, asked).now_or_never().unwrap_or_else(never)
    }

    fn newest(&mut self, form: &WordForm, most: usize) -> Result<Newest, L::Error> {
        let ids = self.lookups.newest(form, most, &mut || self.judge.step())?;
        Ok(Newest { complete: ids.len() < most, ids })
    }

    /// Returns the passages that contain a form; none of them if they are `most` or more.
    fn few_with(&mut self, form: &WordForm, most: usize) -> Result<Newest, L::Error> {
        let found = self.lookups.few_with(form, most, &mut || self.judge.step())?;
        Ok(found.map_or_else(Newest::default, |ids| Newest { ids, complete: true }))
    }

    fn newest_of(&mut self, forms: &[WordForm], most: usize) -> Result<Vec<Newest>, L::Error> {
        forms.iter().map(|form| self.newest(form, most)).collect()
    }

    fn among(&mut self, form: &WordForm, ids: &[i64]) -> Result<Vec<i64>, L::Error> {
        self.lookups.among(form, ids, &mut || self.judge.step())
    }

    /// Returns the newest passages of each word. Those of plain forms are read first: a passage with another
    /// form, which stands for the frequency of the word, has the plain one as well.
    fn words(&mut self, asked: &Start) -> Result<Vec<Vec<Newest>>, L::Error> {
        let mut words = Vec::with_capacity(asked.words.len());
        for (forms, limits) in asked.words.iter().zip(&asked.limits) {
            let mut found = vec![Newest::default(); forms.len()];
            for (form, found) in forms.iter().zip(&mut found).filter(|(form, _)| form.is_plain()) {
                *found = self.newest(form, limits.probe)?;
            }
            words.push(found);
        }
        let is_rare =
            |(forms, found): (&Vec<WordForm>, &Vec<Newest>)| is_known(forms, found) && has_any(found);
        let rare: Vec<bool> = asked.words.iter().zip(&words).map(is_rare).collect();
        let has_rare = rare.contains(&true);
        let asks = |place: usize| asked.asking >> place & 1 == 1;
        let asks_rare = rare.iter().enumerate().any(|(place, is_rare)| *is_rare && asks(place));
        let each = asked.words.iter().zip(&asked.limits).zip(&mut words);
        for (place, ((forms, limits), found)) in each.enumerate() {
            if is_known(forms, found) {
                // Other forms of a word that no passage contains need no lookup.
                if !has_any(found) {
                    found.iter_mut().for_each(|form| form.complete = true);
                    continue;
                }
            } else if has_rare {
                // The search looks the word up beside the rare ones. These rows only tell how many there are.
                if !asks(place) || asks_rare {
                    continue;
                }
            } else if limits.most > limits.probe {
                // Without a rare word the candidates are the newest matches of all words, so more of them are
                // read.
                *found = self.newest_of(forms, limits.most)?;
                continue;
            }
            for (form, found) in forms.iter().zip(found).filter(|(form, _)| !form.is_plain()) {
                *found = self.newest(form, limits.probe)?;
            }
        }
        Ok(words)
    }

    fn start_now(&mut self, asked: &Start) -> Result<Started, L::Error> {
        let mut words = self.words(asked)?;
        let reach = match asked.reach {
            Some(bound) => self.reach(bound)?,
            None => None,
        };
        if let Some(ids) = &reach {
            for (forms, found) in asked.words.iter().zip(&mut words) {
                for (form, found) in forms.iter().zip(found).filter(|(_, found)| !found.complete) {
                    *found = Newest { ids: self.among(form, ids)?, complete: true };
                }
            }
        }
        let mut near = Vec::with_capacity(asked.near.len());
        for form in &asked.near {
            near.push(match &reach {
                Some(ids) => Newest { ids: self.among(form, ids)?, complete: true },
                None => self.few_with(form, asked.near_most)?,
            });
        }
        Ok(Started { totals: self.lookups.totals(), reach, words, near })
    }

    /// Returns the passages that the query can reach, if they are few.
    fn reach(&mut self, bound: ScopeBound) -> Result<Option<Vec<i64>>, L::Error> {
        let below = self.judge.below(bound.nodes)?;
        let step: Step<'_, L::Error> = &mut || self.judge.step();
        match below {
            Some((inos, true)) => self.lookups.few_passages_of(&inos, bound.passages, step),
            Some((_, false)) => Ok(None),
            None => self.lookups.few(bound.passages, step),
        }
    }

    fn narrow_now(&mut self, asked: &Narrow) -> Result<Narrowed, L::Error> {
        let (subtree, rare) = match &asked.place {
            Place::Passages(ids) => {
                let words = self.among_all(&asked.words, ids, |_| true)?;
                return Ok(Narrowed { subtree: None, words });
            }
            Place::Matches { subtree, rare } => (subtree, rare),
        };
        if let Some(bound) = subtree
            && let Some((inos, all_nodes)) = self.judge.below(bound.nodes)?
            && (all_nodes || !bound.must_fit)
        {
            let step: Step<'_, L::Error> = &mut || self.judge.step();
            let (ids, all_passages) = self.lookups.passages_of(&inos, bound.passages, step)?;
            let counted = ids.len() < FEW;
            let words = self.among_all(&asked.words, &ids, |form| counted || form.is_plain())?;
            return Ok(Narrowed { subtree: Some(SubtreePassages { ids, all_nodes, all_passages }), words });
        }
        if rare.is_empty() {
            return Ok(Narrowed::default());
        }
        let mut words = Vec::with_capacity(asked.words.len());
        for forms in &asked.words {
            let mut found = Vec::with_capacity(forms.len());
            for form in forms {
                let rare: Vec<&WordForm> =
                    rare.iter().filter(|rare| rare.vocabulary == form.vocabulary).collect();
                found.push(match rare.is_empty() {
                    true => Vec::new(),
                    false => self.lookups.beside(form, &rare, &mut || self.judge.step())?,
                });
            }
            words.push(found);
        }
        Ok(Narrowed { subtree: None, words })
    }

    /// Looks up the forms of words that `is_asked` selects.
    fn among_all(
        &mut self,
        words: &[Vec<WordForm>],
        ids: &[i64],
        is_asked: impl Fn(&WordForm) -> bool,
    ) -> Result<Vec<Vec<Vec<i64>>>, L::Error> {
        let mut found = Vec::with_capacity(words.len());
        for forms in words {
            let lists = forms.iter().map(|form| match is_asked(form) {
                true => self.among(form, ids),
                false => Ok(Vec::new()),
            });
            found.push(lists.collect::<Result<_, _>>()?);
        }
        Ok(found)
    }

    fn candidates_now(
        &mut self,
        ids: &[i64],
        files: &mut JudgedFiles<J::File>,
    ) -> Result<Candidates, L::Error> {
        let mut found = Candidates::default();
        let (mut passages, mut new, mut seen) = (Vec::new(), Vec::new(), NumberSet::default());
        // A row of the index of format 2 may belong to a passage that was deleted.
        for passage in self.lookups.passages(ids, &mut || self.judge.step())? {
            let ino = passage.ino;
            if !files.is_judged(ino) && !seen.contains(&ino) {
                if new.len() == files.room() {
                    found.is_limited = true;
                    break;
                }
                seen.insert(ino);
                new.push(ino);
            }
            passages.push(passage);
        }
        for (ino, file) in new.iter().zip(self.judge.allow(&new)?) {
            files.insert(*ino, file);
        }
        let allowed: Vec<(&J::File, &Passage)> =
            passages.iter().filter_map(|passage| Some((files.get(passage.ino)?, passage))).collect();
        let mut shown = self.judge.shows(&allowed)?.into_iter();
        found.passages.extend(passages.iter().map(|passage| {
            let shown = files.get(passage.ino).and_then(|_| shown.next());
            (*passage, shown.unwrap_or(Shown::Nothing))
        }));
        Ok(found)
    }

    fn texts_now(&mut self, asked: &[(J::File, Vec<Passage>)]) -> Result<Vec<String>, L::Error> {
        let texts = self.judge.texts(asked)?;
        for _ in &texts {
            self.judge.step()?;
        }
        Ok(texts)
    }
}

impl<L: Lookups, J: Judge<Error = L::Error>> Postings for Local<'_, L, J> {
    type Error = L::Error;
    type File = J::File;

    fn has_words(&self) -> bool {
        self.lookups.has_words()
    }

    fn is_limited(&self) -> bool {
        self.judge.is_limited()
    }

    fn start(&mut self, asked: &Start) -> impl Future<Output = Result<Started, Self::Error>> + Send {
        ready(self.start_now(asked))
    }

    fn narrow(&mut self, asked: &Narrow) -> impl Future<Output = Result<Narrowed, Self::Error>> + Send {
        ready(self.narrow_now(asked))
    }

    fn candidates(
        &mut self,
        ids: &[i64],
        files: &mut JudgedFiles<Self::File>,
    ) -> impl Future<Output = Result<Candidates, Self::Error>> + Send {
        ready(self.candidates_now(ids, files))
    }

    fn texts(
        &mut self,
        asked: &[(Self::File, Vec<Passage>)],
    ) -> impl Future<Output = Result<Vec<String>, Self::Error>> + Send {
        ready(self.texts_now(asked))
    }

    fn beginnings(
        &mut self,
        terms: &[Term],
    ) -> impl Future<Output = Result<Vec<Vec<WordForm>>, Self::Error>> + Send {
        ready(terms.iter().map(|term| self.lookups.beginnings(term)).collect())
    }
}

/// Searches the files that a query may show.
///
/// # Errors
/// Errors of the index and the files.
pub fn search_files<F: Files, L: Lookups<Error = F::Error>>(
    lookups: &L,
    mut filter: QueryFilter<'_, F>,
    missing: u64,
) -> Result<SearchAnswer, F::Error> {
    let question = filter.question().clone();
    let asked = SearchParams::of(filter.query());
    let found: Answer<FoundFile> = Local::new(lookups, &mut filter).search(&question, asked)?;
    Ok(SearchAnswer { hits: filter.hits(found.found)?, more: found.more, missing })
}

/// Returns true if all passages with a plain form of a word are known.
fn is_known(forms: &[WordForm], found: &[Newest]) -> bool {
    forms.iter().zip(found).all(|(form, found)| found.complete || !form.is_plain())
}

/// Returns true if some passage contains a word.
fn has_any(found: &[Newest]) -> bool {
    found.iter().any(|form| !form.ids.is_empty())
}
