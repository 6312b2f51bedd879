//! Names of passwords and keys in other languages than English. Case, accents, and one sign between the words
//! of a name make no difference: `Mot de passe`, `MOT_DE_PASSE`, `CONTRASEÑA` and `contrasena` are names.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use super::assigned::Name;
use super::judgement::Judgement;
use super::links::is_link;

/// Names that must begin a word: `enclave` is not one. A longer name such as `clave API` has its own entry,
/// because its kind may differ.
const WORDS: &[(&str, Name)] = &[
    ("mot de passe", Name::Password),
    ("mots de passe", Name::Password),
    ("mdp", Name::Password),
    ("clé API", Name::Token),
    ("clé d'API", Name::Token),
    ("clé de l'API", Name::Token),
    ("clef API", Name::Token),
    ("clés API", Name::Token),
    ("clé d'accès", Name::Token),
    ("clé secrète", Name::Token),
    ("clé privée", Name::Token),
    ("clé wifi", Name::Password),
    ("clé du wifi", Name::Password),
    ("jeton", Name::Token),
    ("contraseña", Name::Password),
    ("contraseñas", Name::Password),
    ("clave", Name::Password),
    ("claves", Name::Password),
    ("clave API", Name::Token),
    ("clave de API", Name::Token),
    ("clave de la API", Name::Token),
    ("clave secreta", Name::Token),
    ("clave privada", Name::Token),
    ("clave de acceso", Name::Password),
    ("senha", Name::Password),
    ("senhas", Name::Password),
    ("palavra-passe", Name::Password),
    ("palavras-passe", Name::Password),
    ("chave API", Name::Token),
    ("chave de API", Name::Token),
    ("chave da API", Name::Token),
    ("chave secreta", Name::Token),
    ("chave privada", Name::Token),
    ("chave de acesso", Name::Token),
    ("parola d'accesso", Name::Password),
    ("parola d'ordine", Name::Password),
    ("chiave API", Name::Token),
    ("chiave dell'API", Name::Token),
    ("chiave segreta", Name::Token),
    ("chiave privata", Name::Token),
    ("chiave d'accesso", Name::Token),
    ("hasło", Name::Password),
    ("hasła", Name::Password),
    ("klucz API", Name::Token),
    ("klucz prywatny", Name::Token),
    ("ключ API", Name::Token),
    ("API ключ", Name::Token),
    ("ключ доступа", Name::Token),
    ("секретный ключ", Name::Token),
    ("приватный ключ", Name::Token),
    ("закрытый ключ", Name::Token),
];

/// Names that may end a longer word, as in `Datenbankpasswort`, and names in scripts without blanks.
const ENDS: &[(&str, Name)] = &[
    ("Passwort", Name::Password),
    ("Passwörter", Name::Password),
    ("Passwoerter", Name::Password),
    ("Kennwort", Name::Password),
    ("Kennwörter", Name::Password),
    ("Kennwoerter", Name::Password),
    ("Zugangscode", Name::Password),
    ("WLAN-Schlüssel", Name::Password),
    ("WLAN-Schluessel", Name::Password),
    ("Wifi-Schlüssel", Name::Password),
    ("Netzwerkschlüssel", Name::Password),
    ("Netzwerkschluessel", Name::Password),
    ("API-Schlüssel", Name::Token),
    ("API-Schluessel", Name::Token),
    ("Zugangsschlüssel", Name::Token),
    ("Zugriffsschlüssel", Name::Token),
    ("Geheimschlüssel", Name::Token),
    ("geheimer Schlüssel", Name::Token),
    ("privater Schlüssel", Name::Token),
    ("wachtwoord", Name::Password),
    ("wachtwoorden", Name::Password),
    ("toegangscode", Name::Password),
    ("API-sleutel", Name::Token),
    ("wifi-sleutel", Name::Password),
    ("пароль", Name::Password),
    ("пароли", Name::Password),
    ("токен", Name::Token),
    ("パスワード", Name::Password),
    ("パスフレーズ", Name::Password),
    ("パスコード", Name::Password),
    ("暗証番号", Name::Password),
    ("トークン", Name::Token),
    ("APIキー", Name::Token),
    ("アクセスキー", Name::Token),
    ("シークレットキー", Name::Token),
    ("秘密鍵", Name::Token),
    ("密码", Name::Password),
    ("密碼", Name::Password),
    ("口令", Name::Password),
    ("令牌", Name::Token),
    ("密钥", Name::Token),
    ("密鑰", Name::Token),
    ("金鑰", Name::Token),
    ("비밀번호", Name::Password),
    ("암호", Name::Password),
    ("패스워드", Name::Password),
    ("토큰", Name::Token),
    ("API키", Name::Token),
];

/// Phrases that end like a name and name something else.
const HARMLESS: [&str; 7] =
    ["palabra clave", "palabras clave", "concepto clave", "公开密钥", "公開密鑰", "公開金鑰", "公共密钥"];

/// Limits of a name: its letters, and its bytes.
const LETTERS: usize = 20;
const BYTES: usize = 64;

/// Name in another language.
pub(super) struct ForeignName {
    pub(super) name: Name,
    /// Place of the name.
    pub(super) place: Range<usize>,
}

/// Returns the name in another language that ends with this word, and may begin before it: `Mot de passe`
/// ends with the word `passe`.
pub(super) fn in_word(text: &[u8], word: &Range<usize>) -> Option<ForeignName> {
    let is_candidate = match text[word.clone()].last_chunk::<3>() {
        Some(last) => may_end_name(*last),
        // After a letter with an accent, as in `Contraseña`.
        None => word.start > 0 && !text[word.start - 1].is_ascii(),
    };
    // A letter with an accent continues the word.
    if !is_candidate || matches!(text.get(word.end), Some(0xc3..=0xc9 | 0xcc | 0xcd)) {
        return None;
    }
    ending(text, word.end)
}

/// Returns the name that ends at a place.
fn ending(text: &[u8], end: usize) -> Option<ForeignName> {
    let letters = Letters::before(text, end);
    let is_one = |known: &&Known| {
        let start = letters.start_of(known);
        start.is_some_and(|start| !known.begins_word || begins_word(text, start))
    };
    let known = NAMES.iter().find(is_one)?;
    Some(ForeignName { name: known.name?, place: letters.start_of(known)?..end })
}

/// Name as it is compared.
struct Known {
    /// Letters without case, accents and signs, the last one first.
    letters: Vec<char>,
    /// `None` for the name of another thing.
    name: Option<Name>,
    begins_word: bool,
}

/// Names of other things first, because names end like them.
static NAMES: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let known = |written: &str, name, begins_word| {
        let letters = written.chars().rev().filter(|it| !is_sign(*it)).map(folded).collect();
        Known { letters, name, begins_word }
    };
    let harmless = HARMLESS.iter().map(|written| known(written, None, false));
    let words = WORDS.iter().map(|(written, name)| known(written, Some(*name), true));
    let ends = ENDS.iter().map(|(written, name)| known(written, Some(*name), false));
    harmless.chain(words).chain(ends).collect()
});

/// Returns true if no letter of the same word is before a place. A capital begins a word: `wifiClave`.
fn begins_word(text: &[u8], start: usize) -> bool {
    match character_before(text, start) {
        Some((before, _)) if before.is_ascii_lowercase() => text[start].is_ascii_uppercase(),
        Some((before, _)) => !before.is_alphabetic(),
        None => true,
    }
}

/// Returns true if a word with these last characters may end a name. Most words do not, and need no closer
/// look.
fn may_end_name(last: [u8; 3]) -> bool {
    match last_letters(last) {
        Some(at) => ENDS_OF_NAMES[at],
        // A sign divides a word such as `Wi-Fi`.
        None => {
            last[2].is_ascii_alphabetic()
                && last.iter().all(|byte| byte.is_ascii_alphabetic() || b"-_".contains(byte))
        }
    }
}

/// The last three letters of all names: true at the number of each.
static ENDS_OF_NAMES: LazyLock<Vec<bool>> = LazyLock::new(|| {
    let mut ends = vec![false; 26 * 26 * 26];
    for known in NAMES.iter() {
        let letter = |at: usize| known.letters.get(at).and_then(|it| u8::try_from(*it).ok());
        if let (Some(first), Some(second), Some(third)) = (letter(2), letter(1), letter(0))
            && let Some(at) = last_letters([first, second, third])
        {
            ends[at] = true;
        }
    }
    ends
});

/// Returns the numbers of the last three letters of all names.
pub(super) fn ends_of_names() -> impl Iterator<Item = usize> {
    ENDS_OF_NAMES.iter().enumerate().filter(|(_, is_end)| **is_end).map(|(at, _)| at)
}

/// Returns the number of three letters in the order of all such letters; `None` for other characters.
pub(super) fn last_letters(letters: [u8; 3]) -> Option<usize> {
    letters.iter().try_fold(0, |place, letter| {
        letter.is_ascii_alphabetic().then(|| place * 26 + usize::from(letter.to_ascii_lowercase() - b'a'))
    })
}

/// Letters at the end of a text without case and accents, the last one first, each with its place.
struct Letters {
    letters: [(char, usize); LETTERS],
    count: usize,
}

impl Letters {
    fn before(text: &[u8], end: usize) -> Self {
        let mut it = Self { letters: [('\0', 0); LETTERS], count: 0 };
        let (from, mut at) = (end.saturating_sub(BYTES), end);
        let mut after_sign = true;
        while at > from && it.count < LETTERS {
            let Some((character, start)) = character_before(text, at) else { break };
            at = start;
            if is_accent(character) {
                continue;
            }
            if is_sign(character) {
                // The name ends with a letter, and its words have one sign between them.
                if after_sign {
                    break;
                }
                after_sign = true;
                continue;
            }
            if !character.is_alphabetic() {
                break;
            }
            after_sign = false;
            it.letters[it.count] = (folded(character), start);
            it.count += 1;
        }
        it
    }

    /// Returns the start of a name that the text ends with.
    fn start_of(&self, known: &Known) -> Option<usize> {
        let own = self.letters[..self.count].get(..known.letters.len())?;
        let is_same = own.iter().map(|(letter, _)| letter).eq(&known.letters);
        own.last().filter(|_| is_same).map(|(_, start)| *start)
    }
}

/// Returns the character that ends before a place, and its start.
fn character_before(text: &[u8], end: usize) -> Option<(char, usize)> {
    let most = text[..end].iter().rev().take(4);
    let length = most.take_while(|byte| **byte & 0xc0 == 0x80).count() + 1;
    let start = end.checked_sub(length)?;
    let character = std::str::from_utf8(&text[start..end]).ok()?.chars().next()?;
    Some((character, start))
}

/// Returns true for the signs between the words of a name.
fn is_sign(character: char) -> bool {
    matches!(character, ' ' | '\u{a0}' | '-' | '_' | '\'' | '’')
}

/// Returns true for an accent that follows its letter as a character of its own.
fn is_accent(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}')
}

/// Returns a letter without case and accent.
fn folded(letter: char) -> char {
    #[cfg(test)]
    tests::FOLDED.set(tests::FOLDED.get() + 1);
    if letter.is_ascii() {
        return letter.to_ascii_lowercase();
    }
    match letter.to_lowercase().next().unwrap_or(letter) {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' => 'e',
        'ì'..='ï' | 'ī' => 'i',
        'ł' => 'l',
        'ñ' | 'ń' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ő' => 'o',
        'ś' | 'š' => 's',
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        'ё' => 'е',
        'й' => 'и',
        lower => lower,
    }
}

/// Set of words in any case, with or without accents. Many words follow a name of a secret, and hardly one of
/// them is in the set, so most are ruled out by their first letter and length.
pub(super) struct WordSet {
    folded: HashSet<String>,
    /// For each first letter from `a` to `z`, the lengths of its words: bit 3 for a length of 3.
    lengths: [u32; 26],
}

impl WordSet {
    /// Returns the set of words of at most 31 letters.
    pub(super) fn of(words: &[&str]) -> Self {
        let folded: HashSet<String> = words.iter().map(|word| word.chars().map(folded).collect()).collect();
        let mut lengths = [0; 26];
        for word in &folded {
            if let Some(at) = word.bytes().next().and_then(place_in_alphabet) {
                lengths[at] |= bit(word.chars().count());
            }
        }
        Self { folded, lengths }
    }

    pub(super) fn contains(&self, word: &[u8]) -> bool {
        let Some(first) = word.first() else { return false };
        if word.is_ascii()
            && place_in_alphabet(*first).is_none_or(|at| self.lengths[at] & bit(word.len()) == 0)
        {
            return false;
        }
        let Ok(word) = std::str::from_utf8(word) else { return false };
        let letters = word.chars().filter(|it| !is_accent(*it)).take(32).map(folded);
        self.folded.contains(&letters.collect::<String>())
    }
}

fn place_in_alphabet(letter: u8) -> Option<usize> {
    letter.is_ascii_alphabetic().then(|| usize::from(letter.to_ascii_lowercase() - b'a'))
}

/// Returns the bit of a length, and 0 for one that no known word has.
fn bit(length: usize) -> u32 {
    u32::try_from(length).ok().and_then(|length| 1_u32.checked_shl(length)).unwrap_or(0)
}

/// Names under the third judgement, which is case-sensitive.
const THIRD: [(&str, Name); 18] = [
    ("パスワード", Name::Password),
    ("暗証番号", Name::Password),
    ("トークン", Name::Token),
    ("APIキー", Name::Token),
    ("密码", Name::Password),
    ("密碼", Name::Password),
    ("令牌", Name::Token),
    ("密钥", Name::Token),
    ("비밀번호", Name::Password),
    ("토큰", Name::Token),
    ("пароль", Name::Password),
    ("Пароль", Name::Password),
    ("токен", Name::Token),
    ("Токен", Name::Token),
    ("contraseña", Name::Password),
    ("Contraseña", Name::Password),
    ("hasło", Name::Password),
    ("Hasło", Name::Password),
];

/// Returns the kind and the length of the name that ends a text, and has a letter that is not ASCII. Other
/// names are found by their last word.
pub(super) fn before_value(text: &[u8], judgement: Judgement) -> Option<(Name, usize)> {
    if judgement < Judgement::Fourth {
        let (name, said) = THIRD.iter().find(|(name, _)| text.ends_with(name.as_bytes()))?;
        return Some((*said, name.len()));
    }
    // Of most texts no letter needs to be folded.
    if text[text.len().saturating_sub(BYTES)..].is_ascii() {
        return None;
    }
    let found = ending(text, text.len())?;
    (!text[found.place.clone()].is_ascii()).then_some((found.name, found.place.len()))
}

/// Returns the kind and the length of a name in another script before other words that end a text, and the
/// length of these.
pub(super) fn before_words(text: &[u8], judgement: Judgement) -> Option<(Name, usize, usize)> {
    let joins: &[u8] = if judgement >= Judgement::Fourth { b"-." } else { b"" };
    let is_part = |byte: &u8| is_letter(*byte) || joins.contains(byte);
    let letters = |end: usize| text[..end].iter().rev().take_while(|byte| is_part(byte)).count();
    let found = |end: usize| {
        before_value(&text[..end], judgement).map(|(name, length)| (name, length, text.len() - end))
    };
    let start = text.len() - letters(text.len());
    let mut end = text.len();
    // A particle of one or two characters is a part of the word.
    for _ in 0..2 {
        end -= text[start..end].iter().rev().take_while(|byte| **byte & 0xc0 == 0x80).count();
        end = end.saturating_sub(1).max(start);
        if let Some(found) = found(end) {
            return Some(found);
        }
    }
    end = text.len();
    for _ in 0..4 {
        end -= letters(end);
        // One blank: otherwise, something else begins here.
        let [before @ .., b' '] = &text[..end] else { return None };
        end = before.len();
        if let Some(found) = found(end) {
            return Some(found);
        }
    }
    None
}

/// Returns true if words after a name in another script say where it is for, or are just a particle.
pub(super) fn begins_with_link(words: &[u8]) -> bool {
    static LINKS: LazyLock<WordSet> = LazyLock::new(|| {
        WordSet::of(&["от", "для", "к", "на", "в", "из", "у", "с", "по", "за", "до", "wifi"])
    });
    let Some(words) = words.strip_prefix(b" ") else { return true };
    let first = words.split(|byte| *byte == b' ').next().unwrap_or_default();
    LINKS.contains(first) || (first.is_ascii() && is_link(first, Judgement::Fourth))
}

/// Returns true for bytes of words in any script.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Beginnings and ends of names with a letter that is not ASCII, which divides them into words, under the
/// third judgement.
const SPLIT: [(&str, &str); 3] = [("contrase", "ña"), ("contrase", "Ña"), ("has", "ło")];

/// Returns the length of the end of a name that begins with this word, and has a letter that is not ASCII,
/// under the third judgement; 0 for other words.
pub(super) fn length_of_end(text: &[u8], word: &Range<usize>) -> usize {
    let bytes = &text[word.clone()];
    let is_one = |(begin, end): &&(&str, &str)| {
        bytes.eq_ignore_ascii_case(begin.as_bytes()) && text[word.end..].starts_with(end.as_bytes())
    };
    SPLIT.iter().find(is_one).map_or(0, |(_, end)| end.len())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::find;
    use super::WordSet;

    thread_local! {
        /// Number of letters that were folded.
        pub(super) static FOLDED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn few_letters_of_a_text_about_tokens_are_folded() {
        let text = "The parser builds a token of the failing test line and says why. ".repeat(100);
        let before = FOLDED.get();
        assert!(find(text.as_bytes()).is_empty());
        let folded = FOLDED.get() - before;
        assert!(folded < text.len(), "{folded} letters of {} bytes", text.len());
    }

    #[test]
    fn words_equal_known_ones_in_any_case_and_without_accents() {
        for (word, known) in [
            ("sera", "será"),
            ("SERÁ", "será"),
            ("sera\u{301}", "será"),
            ("E\u{301}tait", "était"),
            ("etait", "était"),
            ("\u{212a}ey", "key"),
        ] {
            assert!(WordSet::of(&[known]).contains(word.as_bytes()), "{word} {known}");
        }
        for (word, known) in [("serás", "será"), ("", "é"), ("tera", "será"), ("ętait", "stait")] {
            assert!(!WordSet::of(&[known]).contains(word.as_bytes()), "{word} {known}");
        }
    }
}
