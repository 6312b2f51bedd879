//! Top-level fields of front matter, read line by line. Used where the text is not valid YAML, or where YAML
//! reads a value other than the text that people wrote.

/// A field with its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    pub(super) key: &'a str,
    /// The lines of the field, its key included.
    pub(super) text: &'a str,
    /// The text after the colon.
    value: &'a str,
}

/// Returns the fields of front matter. A line that does not start a field belongs to the field before it.
pub(super) fn blocks(front: &str) -> Vec<Block<'_>> {
    let indent = front.lines().filter(|line| !line.trim().is_empty()).map(indent_of).min().unwrap_or(0);
    let mut starts: Vec<(usize, &str, usize)> = Vec::new();
    let mut at = 0;
    for line in front.split_inclusive('\n') {
        if let Some((key, colon)) = line.get(indent..).and_then(opened) {
            starts.push((at, key, at + indent + colon + 1));
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(start, ..)| *start).chain([front.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|((start, key, value), end)| Block {
            key,
            text: &front[*start..end],
            value: &front[*value..end],
        })
        .collect()
}

/// Returns the key of the field that a line starts, and the position of its colon.
fn opened(line: &str) -> Option<(&str, usize)> {
    let colon = line.find(':')?;
    let key = line[..colon].trim_end();
    let is_key = key.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_alphanumeric() || "_-. ".contains(c));
    // `https://…` does not start a field.
    let ends = line[colon + 1..].chars().next().is_none_or(char::is_whitespace);
    (is_key && ends).then_some((key, colon))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

impl Block<'_> {
    /// Returns the value as the text that somebody meant: a block after `|` or `>`, else its lines joined,
    /// without the quotes around them.
    pub(super) fn meant(&self) -> String {
        let (first, rest) = self.value.split_once('\n').unwrap_or((self.value, ""));
        let mut lines = rest.lines().map(str::trim).collect::<Vec<_>>();
        let first = first.trim();
        let is_scalar = |mark: char| {
            let modifiers = first.strip_prefix(mark);
            modifiers.is_some_and(|rest| rest.chars().all(|c| c == '-' || c == '+' || c.is_ascii_digit()))
        };
        if is_scalar('|') {
            return lines.join("\n").trim().to_owned();
        }
        if !is_scalar('>') {
            lines.insert(0, first);
        }
        lines.retain(|line| !line.is_empty());
        let joined = lines.join(" ");
        let within = |quote: char| joined.strip_prefix(quote)?.strip_suffix(quote);
        match (within('"'), within('\'')) {
            (Some(text), _) => text.replace("\\\"", "\"").replace("\\\\", "\\"),
            (_, Some(text)) => text.replace("''", "'"),
            _ => joined,
        }
    }

    /// Returns the first line of what was meant, for a value that has one line.
    pub(super) fn first_line(&self) -> String {
        Block { value: self.value.lines().next().unwrap_or_default(), ..*self }.meant()
    }

    /// Returns a flaw of a text of which YAML reads only a part: what follows a tag, or precedes a comment.
    pub(super) fn cut(&self) -> Option<String> {
        let (first, key) = (self.value.trim_start(), self.key);
        if first.starts_with('!') {
            let tag = first.split_whitespace().next().unwrap_or_default();
            return Some(format!("{key}: YAML takes `{tag}` for a tag and drops it; put the text in quotes"));
        }
        if first.starts_with(['"', '\'', '|', '>', '[', '{', '&', '*']) {
            return None;
        }
        // `# text` on a line is mostly meant as a comment, `#12` is not.
        let is_text = |after: &str| after.starts_with(|c: char| !c.is_whitespace());
        let is_cut = |line: &str| {
            let mut signs = line.match_indices('#');
            signs.any(|(at, sign)| line[..at].ends_with([' ', '\t']) && is_text(&line[at + sign.len()..]))
        };
        // Of the lines after the first, those that begin with the sign are comments.
        let mut lines = self.value.lines().enumerate();
        let cut = lines.find(|(at, line)| is_cut(line) && (*at == 0 || !line.trim_start().starts_with('#')));
        cut.map(|_| format!("{key}: YAML drops what follows ` #`, a comment; put the text in quotes"))
    }

    /// Returns the text of a value that YAML reads as a number or a boolean.
    pub(super) fn scalar(&self) -> String {
        let text = self.meant();
        text.split(" #").next().unwrap_or_default().trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(front: &str) -> Vec<&str> {
        blocks(front).into_iter().map(|block| block.key).collect()
    }

    fn meant(front: &str) -> String {
        blocks(front)[0].meant()
    }

    #[test]
    fn a_field_ends_where_the_next_one_opens() {
        assert_eq!(
            keys("name: a\ndescription: b: c\nallowed tools :\n- x\n- y: z\nlast:"),
            ["name", "description", "allowed tools", "last"]
        );
        assert_eq!(keys("  name: a\n  metadata:\n    garth: {}\n"), ["name", "metadata"]);
        assert_eq!(keys("https://a.b\n{\"a\": 1}\n- b: c\nno field"), Vec::<&str>::new());
        assert_eq!(blocks("a: 1\n  b: 2\n\nc: 3")[0].text, "a: 1\n  b: 2\n\n");
        assert_eq!(keys("ключ: да\nname: б"), ["ключ", "name"]);
    }

    #[test]
    fn a_value_is_the_text_that_was_meant() {
        for (front, due) in [
            ("d: Use when: asked", "Use when: asked"),
            ("d: [beta] first\n   and second\n\n   line", "[beta] first and second line"),
            ("d: \"He said: \\\"no\\\"\" ", "He said: \"no\""),
            ("d: 'it''s: so'", "it's: so"),
            ("d: \"a\" and: b", "\"a\" and: b"),
            ("d: >-\n  one:\n  two", "one: two"),
            ("d: |\n  one:\n  two\n", "one:\ntwo"),
            ("d:\n  below: it", "below: it"),
            ("d:", ""),
            ("d: \"", "\""),
        ] {
            assert_eq!(meant(front), due, "{front:?}");
        }
        assert_eq!(blocks("d: yes # agreed")[0].scalar(), "yes");
        assert_eq!(blocks("d: 'one'\n\ttwo: x")[0].first_line(), "one");
    }
}
