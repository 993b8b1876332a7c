//! The classifier against the table of contract §3.4, restated row by row.
//!
//! A row that is read wrongly loses state or copies what belongs to nobody; a built-in namespace
//! that was forgotten makes every fork fail. Expected results are written out, not computed.

use forkline_model::policy::{BUILT_IN, Disposition, Projector, classify};
use forkline_model::{BranchName, Error, Scope, StoreKind};

use Disposition::{Copy, CopyIfEntryCopied, Fail, LeaveOut, MakeIdle, RewriteTip};
use StoreKind::{List, Value};

fn branch_scope() -> Scope {
    let branch = BranchName::new("main").unwrap();
    Scope::Branch { branch, entry: None, position: forkline_model::Position::At }
}

/// Kind, namespace, key; then branch scope of `main`, tree scope.
type Row = (StoreKind, &'static str, &'static str, Disposition, Disposition);

const TABLE: &[Row] = &[
    // pi.op.*, pi.pending.*, pi.result: values and lists
    (Value, "pi.op.meta", "o", LeaveOut, LeaveOut),
    (Value, "pi.op.state", "o", LeaveOut, LeaveOut),
    (Value, "pi.op.not_yet_known", "o", LeaveOut, LeaveOut),
    (List, "pi.op.meta", "o", LeaveOut, LeaveOut),
    (Value, "pi.op.", "o", LeaveOut, LeaveOut),
    (List, "pi.op.", "o", LeaveOut, LeaveOut),
    (Value, "pi.pending.entry", "e", LeaveOut, LeaveOut),
    (List, "pi.pending.assistant_frame", "o:r", LeaveOut, LeaveOut),
    (Value, "pi.pending.assistant_frame", "o:r", LeaveOut, LeaveOut),
    (Value, "pi.pending.", "", LeaveOut, LeaveOut),
    (Value, "pi.result", "o", LeaveOut, LeaveOut),
    (List, "pi.result", "o", LeaveOut, LeaveOut),
    // declared values
    (Value, "pi.session.name", "", Copy, Copy),
    (Value, "pi.session.name", "other", Copy, Copy),
    (Value, "pi.entry.label", "e", CopyIfEntryCopied, CopyIfEntryCopied),
    (Value, "pi.branch.tip", "main", RewriteTip, Copy),
    (Value, "pi.branch.tip", "Main", LeaveOut, Copy),
    (Value, "pi.branch.tip", "", LeaveOut, Copy),
    (Value, "pi.lane.config", "main", Copy, Copy),
    (Value, "pi.lane.config", "main ", LeaveOut, Copy),
    (Value, "pi.lane.state", "main", MakeIdle, MakeIdle),
    (Value, "pi.lane.state", "other", LeaveOut, MakeIdle),
    // any other value or list in pi or pi.*
    (Value, "pi", "", Fail, Fail),
    (List, "pi", "k", Fail, Fail),
    (Value, "pi.", "k", Fail, Fail),
    (Value, "pi.op", "k", Fail, Fail),
    (List, "pi.op", "k", Fail, Fail),
    (Value, "pi.pending", "k", Fail, Fail),
    (Value, "pi.opx", "k", Fail, Fail),
    (Value, "pi.opx.meta", "k", Fail, Fail),
    (Value, "pi.OP.meta", "k", Fail, Fail),
    (Value, "pi.result.x", "k", Fail, Fail),
    (Value, "pi.results", "k", Fail, Fail),
    (Value, "pi.branch", "main", Fail, Fail),
    (Value, "pi.branch.tip.", "main", Fail, Fail),
    (Value, "pi.session.names", "", Fail, Fail),
    (List, "pi.session.name", "", Fail, Fail),
    (List, "pi.entry.label", "e", Fail, Fail),
    (List, "pi.branch.tip", "main", Fail, Fail),
    (List, "pi.lane.config", "main", Fail, Fail),
    (List, "pi.lane.state", "main", Fail, Fail),
    // application values and lists
    (Value, "app.state", "k", LeaveOut, Copy),
    (List, "app.log", "", LeaveOut, Copy),
    (Value, "pi2", "main", LeaveOut, Copy),
    (List, "pi2", "main", LeaveOut, Copy),
    (Value, "PI", "k", LeaveOut, Copy),
    (Value, "Pi.op.meta", "k", LeaveOut, Copy),
    (Value, "pip.x", "k", LeaveOut, Copy),
    (Value, " pi", "k", LeaveOut, Copy),
    (Value, "pi-op.meta", "k", LeaveOut, Copy),
    (Value, "xpi.op.meta", "k", LeaveOut, Copy),
    (Value, "p", "k", LeaveOut, Copy),
];

#[test]
fn the_classifier_is_the_table() {
    for &(kind, namespace, key, in_branch, in_tree) in TABLE {
        let what = format!("{kind:?} {namespace:?}/{key:?}");
        assert_eq!(classify(&branch_scope(), kind, namespace, key), in_branch, "branch: {what}");
        assert_eq!(classify(&Scope::Tree, kind, namespace, key), in_tree, "tree: {what}");
    }
}

/// Every built-in address of contract §2, with what either scope does to it. One that is added
/// to the table of built-in addresses has to be added here, with its disposition.
#[test]
fn every_built_in_address_is_declared() {
    let declared = [
        ("pi.branch.tip", Value, RewriteTip, Copy),
        ("pi.lane.config", Value, Copy, Copy),
        ("pi.lane.state", Value, MakeIdle, MakeIdle),
        ("pi.session.name", Value, Copy, Copy),
        ("pi.entry.label", Value, CopyIfEntryCopied, CopyIfEntryCopied),
        ("pi.result", Value, LeaveOut, LeaveOut),
        ("pi.op.meta", Value, LeaveOut, LeaveOut),
        ("pi.op.state", Value, LeaveOut, LeaveOut),
        ("pi.op.tool_args", Value, LeaveOut, LeaveOut),
        ("pi.op.tool_memo", Value, LeaveOut, LeaveOut),
        ("pi.op.preparation", Value, LeaveOut, LeaveOut),
        ("pi.pending.entry", Value, LeaveOut, LeaveOut),
        ("pi.pending.tool_output", Value, LeaveOut, LeaveOut),
        ("pi.pending.assistant_frame", List, LeaveOut, LeaveOut),
    ];
    for (namespace, kind) in BUILT_IN {
        let row = declared.iter().find(|row| (row.0, row.1) == (namespace, kind));
        let &(_, _, in_branch, in_tree) = row.unwrap_or_else(|| panic!("{namespace} undeclared"));
        assert_eq!(classify(&branch_scope(), kind, namespace, "main"), in_branch, "{namespace}");
        assert_eq!(classify(&Scope::Tree, kind, namespace, "main"), in_tree, "{namespace}");
    }
    assert_eq!(declared.len(), BUILT_IN.len());
}

/// The streaming driver asks for an entry only where the answer matters, and names what failed.
#[test]
fn the_projector_follows_the_classifier() {
    let projector = Projector::new(branch_scope(), None);
    let unasked = |_: &str| -> Result<bool, Error> { panic!("the entry does not matter here") };
    for &(kind, namespace, key, in_branch, _) in TABLE {
        let written = match in_branch {
            CopyIfEntryCopied => projector.project(kind, namespace, key, |_| Ok::<_, Error>(true)),
            _ => projector.project(kind, namespace, key, unasked),
        };
        let written = written.map(|keep| keep.map(|keep| keep.replacement()));
        let replacement = |text: &str| forkline_model::Json::parse(text).unwrap();
        let idle = r#"{"currentOperationId":null,"lastOperationId":null,"inbox":[]}"#;
        let expected = match in_branch {
            LeaveOut => Ok(None),
            Copy | CopyIfEntryCopied => Ok(Some(None)),
            RewriteTip => Ok(Some(Some(replacement("null")))),
            MakeIdle => Ok(Some(Some(replacement(idle)))),
            Fail => {
                let namespace = namespace.try_into().unwrap();
                Err(Error::UnknownReserved { kind, namespace, key: key.try_into().unwrap() })
            }
        };
        assert_eq!(written, expected, "{kind:?} {namespace:?}/{key:?}");
    }
    let label = projector.project(Value, "pi.entry.label", "e", |id| Ok::<_, Error>(id != "e"));
    assert_eq!(label, Ok(None));
}
