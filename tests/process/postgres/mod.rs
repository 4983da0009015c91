//! What only PostgreSQL can do to the service: be away, be shared through a pooler, hold locks, have a clock of its own.

mod backlog;
mod clock;
mod crowd;
mod outage;
mod pool;
mod pooler;
mod sessions;
mod standby;
