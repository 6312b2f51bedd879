//! Names in lines that a model reads. A name that is encoded as one word can neither end its line nor pass
//! for another part of it.

/// Returns a name as one word: letters, digits and `/._~:%-` stay, and each byte of other characters becomes
/// `%` and two hexadecimal digits. A URI stays as it is, with its `%`.
pub fn word(name: &str) -> String {
    let mut word = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || "/._~:%-".contains(c) || (!c.is_ascii() && c.is_alphanumeric()) {
            word.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            word.push_str(&format!("%{byte:02X}"));
        }
    }
    word
}
