//! Form of a topic: its subjects, and sentences that state and ask facts about them.

/// Subjects of one kind, and the facts that people state about each of them.
pub(crate) struct Topic {
    pub(crate) subjects: [&'static str; 16],
    /// Replies that name the subject, for facts that are stated without it.
    pub(crate) replies: [&'static str; 3],
    pub(crate) matters: [Matter; 6],
}

/// Property of a subject, with its values and the sentences about it.
pub(crate) struct Matter {
    /// Sentences that ask for the value or lead to it, and name the subject.
    pub(crate) asked: [&'static str; 2],
    /// Sentences that state the value without naming the subject.
    pub(crate) told: [&'static str; 2],
    pub(crate) values: [&'static str; 6],
    /// Questions for the value that are asked later.
    pub(crate) questions: [&'static str; 2],
}
