//! Test tools of garth: contract suite, model, faults, power cut. Development only.

<<<<<<< HEAD
pub mod cranfield;
=======
pub mod contract;
pub mod model;
pub mod tools;
>>>>>>> memory
