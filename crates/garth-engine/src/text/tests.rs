//! Cutting, tokens, questions and snippets: pure functions that must hold for any input.

use std::collections::BTreeSet;
use std::ops::Range;

use proptest::prelude::*;
use rusqlite::Connection;

use crate::text::json::{decode, is_json};
use crate::text::passage::{Edit, Form, MAX, MAX_TEXT, SEGMENT, SNIFF, TARGET, border, cut, is_text, lines};
use crate::text::question::{MAX_TERMS, Part, STOP_WORDS};
use crate::text::sentence::SMALL_TALK;
use crate::text::stem::stem;
use crate::text::token::MAX_TOKEN;
use crate::text::{Question, Tokenizer, snippet};

fn prose() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zäß]{1,12} ",
        2 => "[a-z]{1,9}\\. ",
        2 => Just("\n".to_owned()),
        1 => Just("\n\n# Heading\n".to_owned()),
        1 => Just("東京都政府。".to_owned()),
        1 => "[a-z]{100,3000}",
        1 => "(é|😀|x){100,2000}",
        1 => "\\{\"k\":\"[a-z ]{10,900}\"\\}\n",
    ];
    prop::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

#[test]
fn letterlike_symbols_do_not_join_adjacent_words() {
    for text in ["№A", "A™", "㎡A"] {
        assert!(tokens(text).contains(&"a".to_owned()), "{text}: {:?}", tokens(text));
    }
}

fn form() -> impl Strategy<Value = Form> {
    prop::sample::select(vec![Form::Text, Form::Json, Form::JsonLines])
}

/// Sentences of a message: statements, short ones, questions, short ones, small talk.
const SENTENCES: [&str; 15] = [
    "The train to Porto stopped twice between two tunnels yesterday.",
    "My colleague repainted the kitchen and burned the lentils again.",
    "Our harbour has a crane, a lighthouse and a rusty boat!",
    "Alice keeps four brown hens behind the shed.",
    "Hello Tom.",
    "Thanks a lot!",
    "See you.",
    "Which lamp in the garden shed needs a new bulb?",
    "How does Alice take her coffee?",
    "What is Bob allergic to?",
    "Is she allergic?",
    "Is he?!",
    "Do you remember?",
    "老板是谁？",
    "ما هي القهوة؟",
];

/// Returns the parts of a question in an order of their own: their words, the words that a pronoun can stand
/// for, and whether they ask.
fn as_set(text: &str) -> BTreeSet<(BTreeSet<String>, BTreeSet<String>, bool)> {
    let question = Question::parse(text).unwrap();
    let words = |terms: u128| -> BTreeSet<String> {
        let terms = question.terms().iter().enumerate().filter(|(place, _)| terms >> place & 1 == 1);
        terms.map(|(_, term)| term.token.clone()).collect()
    };
    question.parts().iter().map(|part| (words(part.terms), words(part.about), part.asks)).collect()
}

/// Returns the texts of the parts of a question, without white space around them.
fn parts(text: &str) -> Vec<String> {
    let question = Question::parse(text).unwrap();
    let of_part = |part: &Part| -> String { part.text.iter().map(|range| &text[range.clone()]).collect() };
    question.parts().iter().map(|part| of_part(part).trim().to_owned()).collect()
}

proptest! {
    #[test]
    fn passages_cover_text_without_splitting_characters(text in prose()) {
        let lengths = cut(text.as_bytes(), true, Form::Text);
        prop_assert_eq!(lengths.iter().sum::<usize>(), text.len());
        let mut at = 0;
        for length in lengths {
            prop_assert!((1..=MAX).contains(&length));
            at += length;
            prop_assert!(text.is_char_boundary(at));
        }
    }

    #[test]
    fn passages_cover_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..20_000), form in form()) {
        let lengths = cut(&bytes, true, form);
        prop_assert_eq!(lengths.iter().sum::<usize>(), bytes.len());
        prop_assert!(lengths.iter().all(|length| (1..=MAX).contains(length)));
    }

    #[test]
    fn cutting_in_pieces_matches_cutting_at_once(text in prose(), step in 1_usize..9_000, form in form()) {
        let (mut held, mut lengths) = (Vec::new(), Vec::new());
        for piece in text.as_bytes().chunks(step) {
            held.extend_from_slice(piece);
            let done = cut(&held, false, form);
            prop_assert!(held.len() - done.iter().sum::<usize>() <= MAX);
            held.drain(..done.iter().sum::<usize>());
            lengths.extend(done);
        }
        lengths.extend(cut(&held, true, form));
        prop_assert_eq!(lengths, cut(text.as_bytes(), true, form));
    }

    #[test]
    fn snippet_is_a_short_part_of_the_passage(text in prose(), question in ".{1,60}") {
        let Some(question) = Question::parse(&question) else { return Ok(()) };
        let snippet = snippet(&text, &question);
        prop_assert!(snippet.len() <= 240 + 2 * "…".len());
        prop_assert!(!snippet.contains(char::is_control));
        let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
        prop_assert!(folded.contains(snippet.trim_matches('…')), "{snippet}");
    }

    #[test]
    fn parts_divide_the_question(text in prop_oneof!["\\PC{0,900}", prose()]) {
        let Some(question) = Question::parse(&text) else { return Ok(()) };
        let parts = question.parts();
        let mut ranges: Vec<Range<usize>> = parts.iter().flat_map(|part| part.text.clone()).collect();
        ranges.sort_by_key(|range| range.start);
        prop_assert!(ranges.iter().all(|range| text.get(range.clone()).is_some()), "{ranges:?}");
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
        prop_assert!((1..=16).contains(&parts.len()) && parts.iter().all(|part| part.terms != 0));
        let known = parts.iter().fold(0, |all, part| all | part.terms);
        let left_out = (0..question.terms().len()).filter(|place| known >> place & 1 == 0).count();
        // Beside questions alone, fewer words than a statement has.
        prop_assert!(left_out == 0 || left_out < 4 && parts.iter().all(|part| part.asks), "{question:?}");
    }

    #[test]
    fn parts_do_not_depend_on_sentence_order(
        said in prop::sample::subsequence(SENTENCES.to_vec(), 1..=SENTENCES.len()).prop_shuffle(),
    ) {
        let mut sorted = said.clone();
        sorted.sort_unstable();
        prop_assert_eq!(as_set(&said.join(" ")), as_set(&sorted.join(" ")));
    }

    #[test]
    fn every_word_is_found_by_itself(text in "\\PC{0,200}", word in "\\PC{1,9}") {
        let tokens = tokens(&format!("{text} {word}"));
        for term in Question::parse(&word).iter().flat_map(Question::terms) {
            prop_assert!(tokens.contains(&term.token), "{:?} of {:?}", term, tokens);
        }
    }

    #[test]
    fn cuts_do_not_split_json_escapes(pieces in prop::collection::vec(
        prop_oneof![Just("\\n"), Just("\\u00e9"), Just("\\ud83d\\ude00"), Just("\\\""), Just("word"), Just(" ")], 0..4000
    )) {
        let text = format!("\"{}\"", pieces.concat());
        let mut at = 0;
        let mut decoded = String::new();
        for length in cut(text.as_bytes(), true, Form::Json) {
            decoded.push_str(&decode(&text[at..at + length]));
            at += length;
        }
        prop_assert_eq!(decoded, decode(&text));
    }

    #[test]
    fn snippet_never_panics(passage in "\\PC{0,900}", question in "\\PC{0,90}") {
        if let Some(question) = Question::parse(&question) {
            snippet(&passage, &question);
        }
    }
}

#[test]
fn cuts_prefer_headings_then_paragraphs_lines_and_sentences() {
    let paragraph = format!("{}\n", "word ".repeat(159));
    let headed = format!("{paragraph}\n## Two\n{paragraph}\n{paragraph}{paragraph}{paragraph}");
    assert!(headed[cut(headed.as_bytes(), true, Form::Text)[0]..].starts_with("## Two"));
    let blank = format!("{paragraph}{paragraph}\n{}", "line\n".repeat(900));
    assert_eq!(cut(blank.as_bytes(), true, Form::Text)[0], 2 * paragraph.len() + 1);
    let record = format!("{{\"text\":\"{}\"}}\n", "x".repeat(1500));
    let last = 2 * record.len();
    assert_eq!(cut(record.repeat(4).as_bytes(), true, Form::Text), [record.len(), record.len(), last]);
    let sentence = "One two three four. ".repeat(400);
    for length in &cut(sentence.as_bytes(), true, Form::Text)[..2] {
        assert_eq!(length % "One two three four. ".len(), 0);
        assert!(*length <= TARGET);
    }
}

#[test]
fn text_is_utf8_without_nul() {
    assert!(is_text(b"", None));
    assert!(is_text("grün".as_bytes(), Some("application/octet-stream")));
    assert!(is_text(&"grü".as_bytes()[..3], None), "the last character may be cut off");
    assert!(!is_text(b"gr\xfcn", Some("text/plain")));
    assert!(!is_text(b"a\0b", Some("text/plain")));
    assert!(!is_text(b"P3 1 1 255", Some("Image/X-Portable-Pixmap; v=1")));
    assert!(is_text(b"<svg/>", Some("image/svg+xml; charset=utf-8")));
}

#[test]
fn records_are_cut_alone_and_short_ones_joined() {
    let cuts = |text: &str| cut(text.as_bytes(), true, Form::JsonLines);
    let (long, short) = ("x".repeat(99) + "\n", "short\n");
    assert_eq!(cuts(&long.repeat(3)), [100, 100, 100]);
    assert_eq!(cuts(&format!("{}{long}{short}", short.repeat(2))), [112, 6]);
    let huge = "x y ".repeat(3_000) + "\n";
    let lengths = cuts(&format!("{short}{huge}{long}"));
    assert_eq!(lengths[0], 6, "a record that is longer than a passage begins one");
    assert_eq!(lengths.last(), Some(&100));
    assert!(lengths[1..].iter().all(|length| *length >= 100), "{lengths:?}");
}

#[test]
fn form_is_decided_by_the_first_line() {
    for (text, form) in [
        ("{\"a\":1}\n{\"b\":2}\n", Form::JsonLines),
        ("\n{\"a\":1}\n", Form::JsonLines),
        ("[1, {\"a\"", Form::JsonLines),
        ("{\n\"a\": 1\n}", Form::Json),
        ("[\n1]", Form::Json),
        ("{a}\n", Form::Text),
        ("", Form::Text),
    ] {
        assert_eq!(Form::of(text.as_bytes()), form, "{text}");
    }
}

#[test]
fn segments_end_with_a_line_or_word() {
    let window = |text: &str| border(text.as_bytes());
    assert_eq!(window("\nabc"), Some(1));
    assert_eq!(window("ab c\nd"), Some(5));
    assert_eq!(window("ab c"), None, "the line may go on");
    let x = "x".repeat(MAX);
    assert_eq!(window(&x), None);
    assert_eq!(window(&format!("a bc{x}")), Some(2), "no line ends");
    assert_eq!(window(&format!("{x}y")), Some(13));
    let e = "\u{e9}".repeat(MAX);
    assert!(e.is_char_boundary(window(&e).unwrap()));
    assert!(window(&"\\".repeat(MAX + 1)).is_some());
    assert_eq!(SEGMENT.count_ones(), 1);
}

#[test]
fn joined_edit_covers_both() {
    let joined = Edit::write(100, 100, 1000).then(Edit::truncate(1000, 50)).then(Edit::write(80, 20, 50));
    assert_eq!(joined, Edit { start: 50, end: 100, old_size: 1000, new_size: 100 });
}

#[test]
fn line_ranges_start_at_one_and_exclude_end() {
    assert_eq!(lines(0, 0, false), 1..2);
    assert_eq!(lines(0, 2, true), 1..3);
    assert_eq!(lines(5, 2, false), 6..9);
}

#[test]
fn question_drops_stop_words() {
    let question = Question::parse("What's the boundary-layer, and who's THE Boundary?").unwrap();
    let words: Vec<&str> = question.terms().iter().map(|term| term.word.as_str()).collect();
    assert_eq!(words, ["boundary", "layer"]);
    assert_eq!(asked("who is that"), ["who", "is", "that"]);
    assert_eq!(Question::parse("?! \0 \"* 😀"), None);
    let many: String = (0..1000).map(|n| format!("word{n} ")).collect();
    assert_eq!(asked(&many).len(), MAX_TERMS);
}

#[test]
fn long_questions_are_divided_at_sentences() {
    let short = "Is the lamp broken? The one in the shed, beside the ladder.";
    assert_eq!(parts(short), [short]);
    let long = "Thanks again. The train stopped twice between Lisbon and Porto yesterday evening. \
        Which lamp in the garden shed needs repair? Bye.";
    let expected = [
        "Which lamp in the garden shed needs repair?",
        "The train stopped twice between Lisbon and Porto yesterday evening. Thanks again. Bye.",
    ];
    assert_eq!(parts(long), expected);
    let endless: String = (0..60).map(|n| format!("word{n} ")).collect();
    let lengths: Vec<usize> = parts(&endless).iter().map(|part| part.split_whitespace().count()).collect();
    assert_eq!(lengths, [24, 24, 12]);
}

#[test]
fn all_pieces_of_a_question_ask() {
    let asks = |text: &str| -> Vec<bool> {
        Question::parse(text).unwrap().parts().iter().map(|part| part.asks).collect()
    };
    let endless: String = (0..60).map(|n| format!(" word{n}")).collect();
    let story = "The train to Porto stopped twice yesterday.";
    assert_eq!(asks(&format!("{story} Which{endless}? {story}")), [true, true, true, false, false]);
    assert_eq!(asks(&format!("{story} Which{endless}. {story}")), [true; 5]);
}

#[test]
fn more_questions_than_parts_are_joined_evenly() {
    // Three words each.
    let questions = |count: usize| -> Vec<String> {
        (0..count).map(|n| format!("Which key{n} of gate{n} is in room{n}?")).collect()
    };
    let story =
        "The train to Porto stopped twice between two tunnels. Our harbour has a crane and a rusty boat.";
    for (count, story, lone, pairs, triples) in
        [(16, "", 16, 0, 0), (20, "", 12, 4, 0), (20, story, 10, 5, 0), (40, "", 0, 8, 8)]
    {
        let mut said = questions(count);
        said.push(story.to_owned());
        let message = said.join(" ");
        let question = Question::parse(&message).unwrap();
        let asking = question.parts().iter().filter(|part| part.asks);
        let lengths: Vec<u32> = asking.map(|part| part.terms.count_ones()).collect();
        let of_length = |words: u32| lengths.iter().filter(|length| **length == words).count();
        assert_eq!([3, 6, 9].map(of_length), [lone, pairs, triples], "{count}: {lengths:?}");
        assert_eq!(question.parts().len() - lengths.len(), usize::from(!story.is_empty()));
        said.reverse();
        assert_eq!(as_set(&said.join(" ")), as_set(&message));
    }
}

#[test]
fn short_question_is_a_part_of_its_own() {
    let story = "I am cooking dinner for some friends this weekend and want to try a new recipe of a book.";
    let ask = "What is Bob allergic to?";
    assert_eq!(parts(&format!("{story} {ask}")), [ask, story]);
    assert_eq!(parts(&format!("{ask} {story}")), [ask, story]);
    // Small talk asks for nothing, also not with a question mark.
    for talk in ["How are you?", "Do you remember?", "Any ideas?"] {
        let question = Question::parse(&format!("{talk} {story} {ask}")).unwrap();
        assert_eq!(question.parts().iter().filter(|part| part.asks).count(), 1, "{talk}");
        let list = "Please list everything that Bob must never eat at parties in summer.";
        let question = Question::parse(&format!("{story} {list} {talk}")).unwrap();
        assert!(question.parts().len() == 2 && question.parts().iter().all(|part| part.asks), "{talk}");
    }
}

#[test]
fn small_talk_with_somebody_asks_nothing() {
    let asks_nothing = |text: &str| Question::parse(text).unwrap().asks_nothing();
    for talk in [
        "who are you",
        "How are you today?",
        "HOW ARE YOU FEELING?",
        "Can you help me?",
        "What do you think?",
        "Hello! Do you remember?",
        "is it the",
    ] {
        assert!(asks_nothing(talk), "{talk}");
    }
    // As frequent words as those of small talk, and questions about somebody else.
    for question in [
        "Where do we meet?",
        "What is her name?",
        "What is your name?",
        "How are you today, and where is Bob?",
        "How does she feel?",
        "Where is he going today?",
        "Which day is it?",
        "今天你好吗？",
    ] {
        assert!(!asks_nothing(question), "{question}");
    }
}

#[test]
fn each_script_has_its_question_mark() {
    let story = "My colleague repainted the kitchen, burned the lentils, lost two keys and missed a train.";
    for ask in [
        "What is Bob allergic to?!",
        "What is Bob allergic to⁇",
        "What is Bob allergic to❓",
        "老板是谁？",
        "ما هي القهوة؟",
        "Τι πίνει η Μαρία\u{37e}",
        "Ո\u{55e}վ է Բոբը\u{589}",
    ] {
        let question = Question::parse(&format!("{ask} {story}")).unwrap();
        let asks: Vec<bool> = question.parts().iter().map(|part| part.asks).collect();
        assert_eq!(asks, [true, false], "{ask}");
    }
    for statement in [
        "We met Bob; he left early.",
        "See https://example.org/?id=5 for the pictures.",
        "See https://example.org/?id=5?part=2 for the pictures.",
    ] {
        let question = Question::parse(&format!("{statement} {story}")).unwrap();
        assert!(question.parts().iter().all(|part| part.asks), "{statement}");
    }
}

#[test]
fn sentences_end_without_capitals_not_with_lines() {
    let story = "my colleague repainted the kitchen, burned the lentils, lost two keys and missed a train.";
    let ask = "what is bob allergic to?";
    assert_eq!(parts(&format!("{story} {ask}")), [ask, story]);
    let wrapped = "Can anyone tell me what our neighbour Bob\r\nis allergic to?";
    let story = "My colleague repainted the kitchen and burned the lentils.";
    assert_eq!(parts(&format!("{wrapped} {story}")), [wrapped, story]);
}

#[test]
fn words_of_questions_count_before_others() {
    // The second one is longer than what is divided at once.
    for sentences in [40, 800] {
        let sentence = |n: usize| format!("Word{n}a word{n}b word{n}c word{n}d. ");
        let story: String = (0..sentences).map(sentence).collect();
        let words = asked(&format!("{story}What is Bob allergic to?"));
        assert_eq!(words.len(), MAX_TERMS);
        assert_eq!(words[MAX_TERMS - 2..], ["bob", "allerg"]);
        assert_eq!(words[..2], ["word0a", "word0b"]);
    }
}

#[test]
fn pronoun_refers_to_other_sentences() {
    let story = "My sister Alice visits us on Sunday, and I cook dinner for the family and many guests.";
    let refers = |ask: &str| -> bool {
        let question = Question::parse(&format!("{story} {ask}")).unwrap();
        let alice = question.terms().iter().position(|term| term.token == "alic").unwrap();
        let asking = question.parts().iter().find(|part| part.asks).unwrap();
        assert!(asking.about & asking.terms == 0 && asking.about >> alice & 1 == 1, "{asking:?}");
        asking.refers
    };
    assert!(refers("Is she allergic?") && refers("What does she drink?"));
    assert!(!refers("What is Bob allergic to?") && !refers("How does Bob take his coffee?"));
}

/// Returns the tokens of a question.
fn asked(question: &str) -> Vec<String> {
    Question::parse(question).unwrap().terms().iter().map(|term| term.token.clone()).collect()
}

/// Returns the tokens of a passage.
fn tokens(passage: &str) -> Vec<String> {
    Tokenizer::default()
        .tokens(passage)
        .0
        .split(' ')
        .filter(|token| !token.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn finds_words_regardless_of_case_and_diacritics() {
    for (text, question) in [
        ("Die STRASSE, der Fluß", "straße fluss"),
        ("Müller kauft Äpfel", "muller ÄPFEL"),
        ("Ёлка и ЧЕМОДАН", "елка чемодан"),
        ("ΟΔΟΣ Ομήρου", "οδός όμηρου"),
        ("l'été à la crème", "ÉTÉ creme"),
        ("İstanbul ve ISPARTA", "istanbul ısparta"),
        ("cafe\u{301} \u{ff37}\u{ff49}\u{ff44}\u{ff45}", "café wide"),
        ("soft\u{ad}ware", "software"),
        ("שָׁלוֹם", "שלום"),
    ] {
        let tokens = tokens(text);
        for token in asked(question) {
            assert!(tokens.contains(&token), "{token} of {question} in {tokens:?}");
        }
    }
    // Marks of other scripts are letters.
    assert_ne!(tokens("हिन्दी"), tokens("हनद"));
    assert_eq!(tokens("हिन्दी").len(), 1);
}

#[test]
fn finds_words_inside_cjk_runs() {
    for (text, question) in [
        ("我们在北京大学学习计算机", "北京大学"),
        ("東京都庁でコーヒーを飲む", "コーヒー"),
        ("저는 서울대학교에서 공부합니다", "대학교"),
        ("子犬", "犬"),
        ("犬小屋", "犬"),
        ("iPhone手机壳", "手机 iphone"),
        ("か\u{3099}っこう", "がっこう"),
        ("\u{1109}\u{1165}\u{110b}\u{116e}\u{11af}", "서울"),
    ] {
        let tokens = tokens(text);
        for token in asked(question) {
            assert!(tokens.contains(&token), "{token} of {question} in {tokens:?}");
        }
    }
    assert_eq!(asked("東京都"), ["東京", "京都"]);
    assert!(!tokens("北京").contains(&"北大".to_owned()));
}

#[test]
fn stems_match_sqlite_porter() {
    let endings = "ational tional enci anci izer bli alli entli eli ousli ization ation ator alism iveness fulness \
        ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance ence er ic able ible ant ement ment \
        ent sion tion ion ou ism ate iti ous ive ize s sses ies ss ed eed ing y e ll";
    let stems = "a by go run hop tan fall hiss fizz fail fil siz relat condition val hesit digit conform radic differ \
        vile analog vietnam predic oper feudal decis hope callous formal sensit sensib triplic form electric good reviv \
        allow infer airlin gyroscop adjust defens irrit replac adopt homolog commun activ angular effect bowdler prob \
        rat ceas contr roll skat happ sk conflat troubl pony cares ti cri agre plaster motor wheth yes syzygy";
    let mut words: BTreeSet<String> = STOP_WORDS.split_whitespace().map(str::to_owned).collect();
    for stem in stems.split_whitespace() {
        words.insert(stem.to_owned());
        words.extend(endings.split_whitespace().map(|ending| format!("{stem}{ending}")));
    }
    let words: Vec<String> = words.into_iter().collect();
    // SQLite has the same algorithm: an independent implementation to compare with.
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(
        "CREATE VIRTUAL TABLE t USING fts5 (word, tokenize='porter ascii');
         CREATE VIRTUAL TABLE v USING fts5vocab (t, instance);",
    )
    .unwrap();
    for (word, row) in words.iter().zip(1..) {
        conn.execute("INSERT INTO t (rowid, word) VALUES (?1, ?2)", (row, word)).unwrap();
    }
    let mut sqlite = conn.prepare("SELECT term FROM v ORDER BY doc").unwrap();
    let sqlite: Vec<String> = sqlite.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(sqlite.len(), words.len());
    for (word, theirs) in words.iter().zip(sqlite) {
        assert_eq!(stem(word), theirs, "{word}");
    }
}

#[test]
fn tokens_are_unique_and_marked_by_level() {
    assert_eq!(tokens("run Runs RUNNING, walk"), ["run", "run^2", "run^3", "walk"]);
    assert_eq!(tokens(&"x ".repeat(5)), ["x", "x^2", "x^3", "x^5"]);
    let long = "a".repeat(1000);
    assert_eq!(tokens(&long), ["a".repeat(MAX_TOKEN)]);
    assert_eq!(asked(&long), ["a".repeat(MAX_TOKEN)]);
}

#[test]
fn detects_json_by_its_beginning() {
    for text in [r#"{"a":1}"#, "[1,\n 2]", "\"text\"", "{\"a\":1}\n{\"a\":2}\n", "{\"a\": \"cut o", "  {"] {
        assert!(is_json(text.as_bytes()), "{text}");
    }
    let deep = "[".repeat(8192);
    assert!(is_json(deep.as_bytes()));
    for text in [
        "",
        "plain",
        "[link](https://example.org)",
        "{ braces }",
        "\"Quoted,\" she said",
        "\"a\",\"b\"\n",
        "\"a\nb\"",
    ] {
        assert!(!is_json(text.as_bytes()), "{text}");
    }
}

#[test]
fn decodes_json_escapes() {
    let text = r#""Shopping list:\nmilk\tand caf\u00e9 \ud83d\ude00 \ud800 C:\\new \"x\" \q \u12""#;
    assert_eq!(decode(text), "\"Shopping list:\nmilk\tand café 😀 \u{fffd} C:\\new \"x\" \\q \\u12\"");
}

#[test]
fn snippet_shows_the_place_with_most_words() {
    let far = "nothing to see here at all ".repeat(40);
    let text = format!("{far} running once. {far} The dog\nruns   to\0the river bank. {far}");
    let snippet = snippet(&text, &Question::parse("dogs running at rivers").unwrap());
    assert!(snippet.contains("The dog runs to the river bank."), "{snippet}");
    assert!(snippet.starts_with('…') && snippet.ends_with('…'));
}

#[test]
fn specification_lists_stop_words_and_limits() {
    let specification = include_str!("../../../../docs/specs/search.md");
    let (_, words) = specification.split_once("## Stop words\n\n```text\n").unwrap();
    let (words, _) = words.split_once("```").unwrap();
    assert!(words.split_whitespace().eq(STOP_WORDS.split_whitespace()));
    let (_, words) = specification.split_once("small talk:\n\n```text\n").unwrap();
    let (words, _) = words.split_once("```").unwrap();
    assert!(words.split_whitespace().eq(SMALL_TALK.split_whitespace()));
    let limits = [
        ("MAX_TEXT", MAX_TEXT),
        ("SNIFF", SNIFF),
        ("TARGET", TARGET as u64),
        ("MAX", MAX as u64),
        ("MAX_TERMS", MAX_TERMS as u64),
        ("MAX_TOKEN", MAX_TOKEN as u64),
    ];
    for (name, value) in limits {
        let row = specification.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        assert_eq!(row.split('|').nth(2).unwrap().replace([',', ' '], ""), value.to_string(), "{name}");
    }
}
