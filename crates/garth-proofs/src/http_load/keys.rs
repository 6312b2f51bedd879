//! API keys of the calls, which are replaced and revoked while they are in use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use garth_testkit::proof::{Broken, Proven, hold};
use serde_json::json;

use crate::served::{Answer, Connection, Request, broken_off, text_of};

/// Agent and user of the bound keys.
pub(super) const BOUND: (&str, &str) = ("scout", "ann");
/// Keys that are valid at a time. Every other one is bound.
pub(super) const SLOTS: u64 = 16;

/// Negative control: a revocation with another effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The key stays valid.
    KeepsKey,
    /// Another key is revoked, too.
    RevokesAnother,
}

/// API key of calls.
pub(super) struct Key {
    token: String,
    id: String,
    /// True from before the request that revokes the key is sent.
    is_ending: AtomicBool,
    /// True after that request was answered.
    is_revoked: AtomicBool,
}

impl Key {
    /// Creates a key, bound or free.
    pub(super) fn create(connection: &mut Connection, admin: &str, is_bound: bool) -> Proven<Self> {
        let scopes = ["files:read", "files:write", "memory:read", "memory:write", "search:read"];
        let mut new = json!({"scopes": scopes});
        if is_bound {
            let (agent, user) = BOUND;
            new["binding"] = json!({"agent": agent, "user": user});
        }
        let made = connection.ok(&Request::post("admin/keys/create", &new).key(admin))?;
        Ok(Self {
            token: text_of(&made["secret"]),
            id: text_of(&made["key"]["id"]),
            is_ending: AtomicBool::new(false),
            is_revoked: AtomicBool::new(false),
        })
    }

    /// Sends a request with the key. Returns true for a success, and false if the key was revoked before the
    /// answer.
    ///
    /// # Errors
    /// A success of a revoked key, a refusal of another key, any other answer, or none.
    pub(super) fn send(&self, connection: &mut Connection, request: Request) -> Proven<bool> {
        let request = request.key(&self.token);
        let was_revoked = self.is_revoked.load(Ordering::SeqCst);
        let answer = connection.ask(&request).map_err(|error| broken_off(&request, &error))?;
        self.judge(&answer, was_revoked, &request.name())
    }

    fn judge(&self, answer: &Answer, was_revoked: bool, call: &str) -> Proven<bool> {
        match answer.status {
            401 => {
                let may_fail = self.is_ending.load(Ordering::SeqCst);
                hold(may_fail, || format!("{call}: a key that nobody revoked is refused"))?;
                Ok(false)
            }
            _ if answer.is_ok() => {
                hold(!was_revoked, || format!("{call}: a revoked key is accepted"))?;
                Ok(true)
            }
            _ => Err(Broken::because(format!("{call} is answered {}", answer.shown()))),
        }
    }
}

/// Valid keys, and those that are being revoked.
pub(super) struct Keys {
    slots: Vec<Mutex<Arc<Key>>>,
}

impl Keys {
    /// Creates the first keys.
    pub(super) fn create(connection: &mut Connection, admin: &str) -> Proven<Self> {
        let mut slots = Vec::new();
        for slot in 0..SLOTS {
            slots.push(Mutex::new(Arc::new(Key::create(connection, admin, is_bound(slot))?)));
        }
        Ok(Self { slots })
    }

    /// Returns the key for a turn. As many turns in succession as there are slots use all keys.
    pub(super) fn key(&self, turn: u64) -> Arc<Key> {
        let slot = &self.slots[(turn % SLOTS) as usize];
        Arc::clone(&slot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the key of a slot, revokes the replaced one, and checks that it is refused.
    ///
    /// # Errors
    /// As [`Key::send`]; a revocation that is refused.
    pub(super) fn change(
        &self,
        connection: &mut Connection,
        (admin, slot): (&str, u64),
        fault: Option<Fault>,
    ) -> Proven<()> {
        let new = Arc::new(Key::create(connection, admin, is_bound(slot))?);
        let old = {
            let mut kept = self.slots[(slot % SLOTS) as usize].lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *kept, new)
        };
        // Before the request: from now on calls with the key may be refused.
        old.is_ending.store(true, Ordering::SeqCst);
        if fault != Some(Fault::KeepsKey) {
            revoke(connection, admin, &old)?;
        }
        if fault == Some(Fault::RevokesAnother) {
            revoke(connection, admin, &self.key(slot + SLOTS / 2))?;
        }
        // After the answer: from now on calls with the key must be refused.
        old.is_revoked.store(true, Ordering::SeqCst);
        let read = Request::post("get", &json!({"path": "/load/0"}));
        let is_accepted = old.send(connection, read)?;
        hold(!is_accepted, || "a revoked key is accepted".to_owned())
    }
}

fn revoke(connection: &mut Connection, admin: &str, key: &Key) -> Proven<()> {
    connection.ok(&Request::post("admin/keys/revoke", &json!({"id": key.id})).key(admin))?;
    Ok(())
}

/// Returns true for the slots of bound keys.
const fn is_bound(slot: u64) -> bool {
    slot % 2 == 1
}
