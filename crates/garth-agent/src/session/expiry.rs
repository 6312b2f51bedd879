//! Expiry: the policy that selects the parts of a session to collect, and the marks by which a server finds
//! the sessions that are due. `gc` collects; rooms that write files with a time limit set the marks.

pub(super) mod policy;
pub(super) mod schedule;
