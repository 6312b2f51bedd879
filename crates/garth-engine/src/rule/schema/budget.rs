//! Budget of steps for judging, and the steps that values take.

use crate::rule::json::Value;

/// Steps for judging the content of one commit: a second of work, two at worst.
pub const MAX_STEPS: u64 = 25_000_000;

/// Steps that may still be taken. One is about the work on a small value: 5 to 75 ns.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// Returns a budget of `steps` steps.
    pub fn new(steps: u64) -> Self {
        Self { left: steps }
    }

    /// Returns the steps that are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes steps. `None` if fewer are left: then the budget is used up, and stays so.
    pub(super) fn take(&mut self, steps: u64) -> Option<()> {
        let left = self.left.checked_sub(steps);
        // The rest is lost as well: cheaper steps must not go on after a refusal.
        self.left = left.unwrap_or(0);
        left.map(|_| ())
    }
}

/// Returns the steps that going through a value takes.
pub(super) fn weight(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(string) => 1 + of_bytes(string),
        Value::Array(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Value::Object(entries) => {
            1 + entries.iter().map(|(key, value)| of_bytes(key) + weight(value)).sum::<u64>()
        }
    }
}

/// Returns the steps that comparing or counting the bytes of a string takes.
pub(super) fn of_bytes(string: &str) -> u64 {
    string.len() as u64 / 64
}
