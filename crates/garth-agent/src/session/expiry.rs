//! When parts of a session may be collected: the policy of a session, and the marks by which a collector finds
//! it. `gc` collects; the rooms that write files with a time limit set the marks.

pub(super) mod policy;
pub(super) mod schedule;
