//! Space that nobody has asked the workload manager for.
//!
//! The workload manager has limits of its own: who may use the burst buffer, and who may make persistent instances. Space that
//! a user makes with `dwcli` comes from the same pools past all of them, so the configuration says how much of it there may be
//! (ADR 15). Operators may always. What counts is what a user made without an operator, as long as its granules are taken.

use super::refusal::Refusal;
use super::request::Caller;
use super::settings::SpaceByHand;
use super::step::Step;
use forebay_model::units::Bytes;

impl Step<'_> {
    /// Judges whether the caller may make sessions and instances by hand at all.
    pub fn check_by_hand(&self, caller: Caller) -> Result<(), Refusal> {
        let settings = &self.state.settings;
        if settings.is_operator(caller.uid) || settings.space_by_hand != SpaceByHand::Operators {
            return Ok(());
        }
        Err(Refusal::ByHand { uid: caller.uid })
    }

    /// Judges whether so much more does not exceed what the owner may have by hand.
    pub fn check_share(&self, caller: Caller, owner: u32, asked: Bytes) -> Result<(), Refusal> {
        let settings = &self.state.settings;
        let SpaceByHand::UpTo(limit) = settings.space_by_hand else { return Ok(()) };
        let held = self.state.links.by_hand.get(&owner).copied().unwrap_or_default();
        if settings.is_operator(caller.uid) || held.0.saturating_add(asked.0) <= limit.0 {
            return Ok(());
        }
        Err(Refusal::OverShare { owner, asked, held, limit })
    }
}
