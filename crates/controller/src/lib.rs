//! Registry, allocation and the job life cycle.
