//! Generated conversations, with questions whose answering turn is known: they measure the effect of a change
//! on search in sessions. People name their subject once, and the answer is in the turn after that, or in the
//! one before.

mod topics;

use std::ops::Range;

use serde_json::json;

use self::topics::{SMALL_TALK, TOPICS};
use crate::data::random::Random;

/// Facts told in one session.
const FACTS: usize = 12;

/// A session as a file of JSON Lines, one turn per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Name of its file.
    pub name: String,
    /// Lines with their line feeds.
    pub turns: Vec<String>,
}

/// Position of the answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// In a turn that does not name its subject; the turn before it does.
    Behind,
    /// In a turn whose subject is named in the turn after it.
    Before,
    /// In a turn that names its subject itself.
    Whole,
}

impl Session {
    fn number(&self) -> usize {
        self.name.trim_end_matches(".jsonl").parse().unwrap_or_default()
    }
}

/// A question, and the turn that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Question in plain words.
    pub text: String,
    /// Position of the answer.
    pub told: Told,
    /// Index of the session.
    pub session: usize,
    /// Index of the turn in the session.
    pub turn: usize,
}

/// Sessions and questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversations {
    /// Sessions of about 30 KB each.
    pub sessions: Vec<Session>,
    /// One question for each fact: 576.
    pub questions: Vec<Question>,
}

/// A fact to tell.
#[derive(Clone, Copy)]
struct Fact {
    topic: usize,
    subject: usize,
    matter: usize,
}

impl Conversations {
    /// Generates the set on which figures are measured. It is always the same.
    pub fn made() -> Self {
        let mut random = Random::new(20_260_101);
        let mut facts = Vec::new();
        for (topic, about) in TOPICS.iter().enumerate() {
            for subject in 0..about.subjects.len() {
                facts.extend((0..about.matters.len()).map(|matter| Fact { topic, subject, matter }));
            }
        }
        // Shuffles (Fisher and Yates), so that a session tells of many topics.
        for last in (1..facts.len()).rev() {
            facts.swap(last, random.below(last as u64 + 1) as usize);
        }
        let mut made = Self { sessions: Vec::new(), questions: Vec::new() };
        for facts in facts.chunks(FACTS) {
            made.add(facts, &mut random);
        }
        made
    }

    /// Adds a session that tells these facts.
    fn add(&mut self, facts: &[Fact], random: &mut Random) {
        let session = self.sessions.len();
        let mut talk = Talk { session, texts: Vec::new() };
        for fact in facts {
            for _ in 0..random.below(3) {
                talk.say("", random);
            }
            let (told, text, turn) = talk.tell(*fact, random);
            self.questions.push(Question { text, told, session, turn });
        }
        self.sessions.push(talk.session());
    }

    /// Returns all sessions in one, filled with small talk to `turns` turns. Turns keep their ids.
    pub fn in_one(&self, turns: usize) -> Session {
        let (mut random, mut all) = (Random::new(20_260_102), Vec::new());
        let told: usize = self.sessions.iter().map(|session| session.turns.len()).sum();
        let between = turns.saturating_sub(told) / self.sessions.len();
        for session in &self.sessions {
            all.extend(session.turns.iter().cloned());
            let mut talk = Talk { session: self.sessions.len() + session.number(), texts: Vec::new() };
            for _ in 0..between {
                talk.say("", &mut random);
            }
            all.extend(talk.session().turns);
        }
        Session { name: "long".to_owned(), turns: all }
    }

    /// Returns the position of the answering turn in its session, in bytes.
    pub fn bytes_of(&self, question: &Question) -> Range<u64> {
        let turns = &self.sessions[question.session].turns;
        let start: usize = turns[..question.turn].iter().map(String::len).sum();
        start as u64..(start + turns[question.turn].len()) as u64
    }
}

/// A session in progress.
struct Talk {
    session: usize,
    texts: Vec<String>,
}

impl Talk {
    /// Adds a turn that contains `what` among other sentences. Turns alternate between the two speakers, so
    /// one is as long as those of people, the next as long as those of models.
    fn say(&mut self, what: &str, random: &mut Random) {
        let others = match self.texts.len() % 2 {
            0 => random.below(3),
            _ => 3 + random.below(9),
        };
        let place = random.below(others + 1);
        let mut sentences: Vec<&str> = (0..others).map(|_| random.pick(&SMALL_TALK)).collect();
        if what.is_empty() {
            sentences.push(random.pick(&SMALL_TALK));
        } else {
            sentences.insert(place as usize, what);
        }
        self.texts.push(sentences.join(" "));
    }

    /// Tells a fact. Returns the position of the answer, a question, and the turn that answers it.
    fn tell(&mut self, fact: Fact, random: &mut Random) -> (Told, String, usize) {
        let topic = &TOPICS[fact.topic];
        let (subject, matter) = (topic.subjects[fact.subject], &topic.matters[fact.matter]);
        let about = |text: &str| text.replace("{s}", subject);
        let value = random.pick(&matter.values);
        let way = random.below(2) as usize;
        let text = matter.told[way].replace("{v}", value);
        let (asked, reply) = (about(random.pick(&matter.asked)), about(random.pick(&topic.replies)));
        let told = random.pick(&[Told::Behind, Told::Behind, Told::Before, Told::Whole]);
        let turn = match told {
            Told::Behind => {
                self.say(&asked, random);
                self.say(&text, random);
                self.texts.len() - 1
            }
            Told::Before => {
                self.say(&text, random);
                self.say(&reply, random);
                self.texts.len() - 2
            }
            Told::Whole => {
                self.say(&format!("{asked} {text}"), random);
                self.texts.len() - 1
            }
        };
        // Each way of telling has a question of its own.
        (told, about(matter.questions[way]), turn)
    }

    fn session(self) -> Session {
        let lines = self.texts.iter().enumerate().map(|(turn, text)| {
            let role = if turn % 2 == 0 { "user" } else { "assistant" };
            let id = format!("msg-{:03}-{turn:03}", self.session);
            format!("{}\n", json!({"id": id, "role": role, "content": text}))
        });
        Session { name: format!("{:03}.jsonl", self.session), turns: lines.collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn conversation_set_is_reproducible() {
        let set = Conversations::made();
        assert_eq!(set, Conversations::made());
        assert_eq!((set.sessions.len(), set.questions.len()), (48, 576));
        let texts: BTreeSet<&str> = set.questions.iter().map(|question| &*question.text).collect();
        assert!(texts.len() > 500, "{} different questions", texts.len());
        let subject = |question: &Question| {
            let named = TOPICS.iter().flat_map(|topic| topic.subjects);
            named.into_iter().find(|subject| question.text.contains(subject)).unwrap()
        };
        for question in &set.questions {
            let turns = &set.sessions[question.session].turns;
            let names = |turn: usize| turns[turn].contains(subject(question));
            match question.told {
                Told::Behind => assert!(names(question.turn - 1) && !names(question.turn)),
                Told::Before => assert!(names(question.turn + 1) && !names(question.turn)),
                Told::Whole => assert!(names(question.turn)),
            }
            let whole: String = turns.concat();
            let bytes = set.bytes_of(question);
            assert_eq!(whole[bytes.start as usize..bytes.end as usize], turns[question.turn]);
        }
        let lengths: Vec<usize> = set.sessions.iter().flat_map(|it| &it.turns).map(String::len).collect();
        let mean = lengths.iter().sum::<usize>() / lengths.len();
        assert!((350..800).contains(&mean), "turns of {mean} bytes");
    }
}
