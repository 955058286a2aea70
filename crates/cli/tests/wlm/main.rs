//! `dw_wlm_cli` and the other commands of a cluster as Slurm and users run them: the real programs, and a controller that
//! runs in the test. Agents are threads that keep the agents' contract and have no disk; what agents do to disks and
//! mounts is judged elsewhere. Needs root, because the controller's socket tells it who asks.

#[path = "../../../controller/tests/service/agent.rs"]
#[allow(dead_code, reason = "the tests of the controller look into its nodes")]
mod agent;
mod away;
mod by_hand;
mod job;
mod persistent;
mod place;
mod refusals;
#[path = "../../../controller/tests/service/place.rs"]
#[allow(dead_code, reason = "the tests of the controller make their requests with it")]
mod service;
