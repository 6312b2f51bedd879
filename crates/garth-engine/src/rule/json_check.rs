//! Demands of a program on JSON besides a schema.

/// Check of a JSON text by a function, which a rule of the program's own has. The flaw is in words.
#[derive(Clone, Copy, Debug)]
pub struct JsonCheck(pub(super) fn(&[u8]) -> std::result::Result<(), String>);

impl PartialEq for JsonCheck {
    /// Functions have no identity: rules differ by their class.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for JsonCheck {}
