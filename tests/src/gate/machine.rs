//! The reference as a state machine for proptest, which makes sequences and shortens them.

use proptest::prelude::Rng;
use proptest::strategy::{BoxedStrategy, Just, NewTree, Strategy};
use proptest::test_runner::TestRunner;
use proptest_state_machine::ReferenceStateMachine;

use forkline_model::Op;

use super::generate::{Reference, Setup};

/// The world of the model, driven by the operation vocabulary.
///
/// Nothing is rejected: an operation that does not fit the state, as left by shrinking, is
/// refused by model and engine alike, and that is compared too. What one operation is made of is
/// not shrunk here, but by [`super::simplify`], which traces from elsewhere can use as well.
#[derive(Debug)]
pub struct Machine;

impl ReferenceStateMachine for Machine {
    type State = Reference;
    type Transition = Op;

    fn init_state() -> BoxedStrategy<Reference> {
        Seeded(|seed| Reference::new(Setup::draw(seed))).boxed()
    }

    fn transitions(state: &Reference) -> BoxedStrategy<Op> {
        let state = state.clone();
        Seeded(move |seed| state.next_op(seed)).boxed()
    }

    fn apply(mut state: Reference, op: &Op) -> Reference {
        state.apply(op);
        state
    }
}

/// Values that are a function of one draw.
struct Seeded<F>(F);

impl<F> std::fmt::Debug for Seeded<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seeded")
    }
}

impl<T: Clone + std::fmt::Debug, F: Fn(u64) -> T> Strategy for Seeded<F> {
    type Tree = Just<T>;
    type Value = T;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        Ok(Just((self.0)(runner.rng().next_u64())))
    }
}
