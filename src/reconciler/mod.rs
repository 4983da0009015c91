//! The background worker: whatever a dead or silent owner left behind is finished without anybody calling again.
//!
//! Every replica runs one. Each attempt is claimed by the same guarded update as a caller's takeover, so no two work on
//! one. Read [`plan`] (when an attempt is looked at again), then [`sweeper`] (one round, and the loop around it).
pub mod plan;
pub mod repository;
pub mod sweeper;
