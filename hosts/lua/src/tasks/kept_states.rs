//! The states that a lane keeps because coroutines wait in them.

use crate::pool::{KeptState, LaneCache, Pool, Refusal, Verdict};
use crate::shared::ScriptLoader;
use crate::state::State;
use crate::state_context::Failure;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A state with coroutines.
struct Kept {
    state: KeptState<ScriptLoader>,
    /// The number of its coroutines.
    coroutines: usize,
    /// Whether it may take no more requests, because of the way in which one of its coroutines has ended.
    spoilt: bool,
}

/// The states, each at an index that is its name while it is kept.
#[derive(Default)]
pub(super) struct KeptStates {
    cache: LaneCache<ScriptLoader>,
    states: Vec<Option<Kept>>,
}

impl KeptStates {
    /// Returns the index of a state for another request of `script`, which counts as one of its coroutines. Waits for at most
    /// `patience` while all states are busy.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(super) fn take(
        &mut self,
        pool: &Pool<ScriptLoader>,
        script: &Arc<Path>,
        patience: Duration,
    ) -> Result<usize, Refusal<Failure>> {
        let of_script = |kept: &Kept| kept.state.is_of(script) && !kept.spoilt;
        let find = |states: &[Option<Kept>], current: bool| {
            states
                .iter()
                .position(|kept| kept.as_ref().is_some_and(|kept| of_script(kept) && (!current || kept.state.is_current(pool))))
        };
        let index = match find(&self.states, true) {
            Some(index) => index,
            None => match pool.take_to_keep(&mut self.cache, script, patience) {
                Ok(state) => return Ok(self.put(state)),
                // An old state is better than none.
                Err(refusal) => find(&self.states, false).ok_or(refusal)?,
            },
        };
        if let Some(kept) = &mut self.states[index] {
            kept.coroutines += 1;
            kept.state.count_request();
        }
        Ok(index)
    }

    fn put(&mut self, state: KeptState<ScriptLoader>) -> usize {
        let kept = Some(Kept { state, coroutines: 1, spoilt: false });
        match self.states.iter().position(Option::is_none) {
            Some(index) => {
                self.states[index] = kept;
                index
            }
            None => {
                self.states.push(kept);
                self.states.len() - 1
            }
        }
    }

    /// Whether the lane keeps any state.
    pub(super) fn is_empty(&self) -> bool {
        self.states.iter().all(Option::is_none)
    }

    pub(super) fn get(&mut self, index: usize) -> Option<&mut State> {
        self.states.get_mut(index)?.as_mut().map(|kept| kept.state.state())
    }

    /// Counts another coroutine of a state.
    pub(super) fn add_coroutine(&mut self, index: usize) {
        if let Some(Some(kept)) = self.states.get_mut(index) {
            kept.coroutines += 1;
        }
    }

    /// Keeps further requests from a state.
    pub(super) fn spoil(&mut self, index: usize) {
        if let Some(Some(kept)) = self.states.get_mut(index) {
            kept.spoilt = true;
        }
    }

    /// Counts the end of a coroutine of a state. If it was the last one, gives the state back.
    pub(super) fn end_coroutine(&mut self, pool: &Pool<ScriptLoader>, index: usize) {
        let Some(place) = self.states.get_mut(index) else { return };
        let Some(kept) = place else { return };
        kept.coroutines -= 1;
        let loaded = kept.state.state().take_loaded();
        if kept.coroutines > 0 {
            return kept.state.add_dependencies(&loaded);
        }
        if let Some(Kept { state, spoilt, .. }) = place.take() {
            let verdict = if spoilt { Verdict::Discard } else { Verdict::Keep };
            pool.give_back_kept(state, verdict, &loaded);
        }
    }
}
