//! `dwcli`: pools and nodes for operators, and sessions, instances and stagings by hand for everybody.
//!
//! [`args`] declares the command line, [`requests`] turns it into requests of the controller, [`answers`] and
//! [`stage_table`] say what came of them, [`backup`] writes and reads pools and nodes as JSON: all of them pure.
//! [`command`] asks the controller in between. Who may do what is the controller's to judge. `docs/dwcli.md` is the
//! manual.

pub mod answers;
pub mod args;
pub mod backup;
pub mod command;
pub mod requests;
pub mod stage_table;
