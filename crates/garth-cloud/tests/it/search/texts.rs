//! Random texts and questions.

/// Words of texts. The first are the most frequent.
const WORDS: &str = "the a of and green tea garden river market coffee mountain city bridge winter summer house \
    train music letter window kitchen bread sugar paper island forest engine doctor teacher student morning \
    evening holiday village harbour captain silver golden purple orange yellow simple narrow ancient modern \
    quiet noisy travel cook paint write sing repair borrow remember forget arrive depart measure collect \
    deliver explain improve invite notice promise refuse suggest wonder basket bottle button candle carpet \
    drawer feather hammer jacket kettle ladder mirror needle pencil pillow pocket ribbon saddle shovel spoon \
    table ticket towel trumpet umbrella violin wallet zebra";

/// Generator of texts. Two of them generate the same ones.
pub(super) struct Texts {
    words: Vec<&'static str>,
    state: u64,
}

impl Texts {
    pub(super) fn new() -> Self {
        Self { words: WORDS.split_whitespace().collect(), state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Returns the next number.
    pub(super) fn number(&mut self) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize
    }

    /// Returns a word, more often one of the first.
    fn word(&mut self) -> &'static str {
        let most = 1 + self.number() % self.words.len();
        let place = self.number() % most;
        self.words[place]
    }

    /// Returns a text of about `size` bytes, in lines of some words.
    pub(super) fn text(&mut self, size: usize) -> String {
        let mut text = String::new();
        while text.len() < size {
            let words = 3 + self.number() % 12;
            let line: Vec<&str> = (0..words).map(|_| self.word()).collect();
            text.push_str(&line.join(" "));
            text.push_str(if self.number().is_multiple_of(4) { ".\n\n" } else { ".\n" });
        }
        text
    }

    /// Returns a question of a few words.
    pub(super) fn question(&mut self, number: usize) -> String {
        let words: Vec<&str> = (0..1 + number % 6).map(|_| self.word()).collect();
        let end = if number.is_multiple_of(4) { "?" } else { "" };
        format!("{}{end}", words.join(" "))
    }
}
