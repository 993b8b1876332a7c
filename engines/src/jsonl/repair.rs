//! A damaged file of format 4 as a sound one, in a scratch file that nobody else sees.
//!
//! A line is a commit, all or none: it is taken when every write of it can be read and its seqs
//! rise, and left out as a whole otherwise. What names an entry that is lost is found by sorting
//! ids, as everywhere, and rewritten while the taken writes are copied, one a line.

use std::io;
use std::ops::Range;
use std::path::Path;

use forkline_model::StoreKind;
use forkline_model::json::quoted;
use forkline_model::policy::BRANCH_TIP;

use super::file::SessionFile;
use super::header::{self, FirstLine};
use super::index::{HASH_BYTES, Keys, spill_error};
use super::legacy::{Findings, Mode, Repair, SalvageReport, What};
use super::lines::{self, Line, PARENT_ID, Part, SHAPE, VALUE, next_line};
use super::open::read_text;
use super::packed::{pack, part, u64_at};
use super::scratch::Scratch;
use super::storage::Span;
use super::window::Window;
use crate::context::{Context, Progress};
use crate::error::{Error, Result};
use crate::scan::{Item, Object, Reason, Scan, ScanError};
use crate::spill::{Sorted, Sorter, SpillError};

/// RAM for each sort, in bytes.
const SORT_BUDGET: usize = 1024 * 1024;

/// Bytes of a name: hash, role, and number of the write.
const NAME_BYTES: usize = HASH_BYTES + 9;
const OWN: u8 = 0;
const NAMED: u8 = 1;

/// Bytes of a fault: number of the write, and what is wrong with it.
const FAULT_BYTES: usize = 9;
const REPEATED: u8 = 0;
const UNKNOWN: u8 = 1;

/// Makes a sound copy of the first `len` bytes of a file.
///
/// # Errors
/// I/O, *cancelled*.
pub(super) fn repair(
    file: &SessionFile,
    path: &Path,
    len: u64,
    scratch: &Path,
    cx: &Context,
) -> Result<(SessionFile, SalvageReport)> {
    let mut repairer = Repairer { file, path, len, scratch, cx };
    let mut findings = Findings::new(Mode::Salvage);
    let (faults, last_seq) = repairer.faults(&mut findings)?;
    // The seqs of writes that are left out stay unused.
    let next_seq = file.header.next_seq.unwrap_or(1).max(last_seq + 1);
    let metadata = &file.header.metadata;
    let cwd = metadata.cwd.as_deref().unwrap_or_default();
    let header = header::render(metadata, cwd, Some(next_seq));
    let (taken, handle) =
        Scratch::new(scratch)?.fill(&header, |out| repairer.copy(faults, &mut findings, out))?;
    let FirstLine::Current(header) = header::read(&*handle, path)? else {
        unreachable!("a header of format 4 was written");
    };
    let sound = SessionFile { handle, header };
    Ok((sound, findings.into_report(taken, 0)))
}

struct Repairer<'a> {
    file: &'a SessionFile,
    path: &'a Path,
    len: u64,
    scratch: &'a Path,
    cx: &'a Context,
}

/// What a look at a line found.
struct Looked {
    /// Where the next line starts.
    next: u64,
    /// The highest seq, if all of the line can be taken.
    last_seq: Result<u64, What>,
    is_split: bool,
}

impl Repairer<'_> {
    /// Visits the writes that are taken, numbered from 0. Tells the highest seq.
    fn each(
        &self,
        mut findings: Option<&mut Findings>,
        visit: &mut dyn FnMut(u64, u64, &Object, &Line<'_>) -> Result<()>,
    ) -> Result<u64> {
        let (mut start, mut number, mut last_seq, mut count) = (self.file.header.end, 2, 0, 0);
        while start < self.len {
            if number % 256 == 0 {
                let bytes_total = 2 * self.len;
                self.cx.progress(Progress { bytes_done: start, bytes_total, rows_done: 0 })?;
            }
            let looked = self.objects(start, number, &mut |_, _| Ok(()), last_seq)?;
            if let Some(findings) = &mut findings {
                if let Err(what) = &looked.last_seq {
                    let writes = self.writes(start..looked.next)?;
                    findings.lose(number, what.clone(), writes);
                } else if looked.is_split {
                    let what = "several commits without a line break between them".to_owned();
                    findings.add(number, What::NotAnObject(what), Repair::Split);
                }
            }
            if let Ok(seq) = looked.last_seq {
                let mut take = |object: &Object, line: &Line<'_>| {
                    visit(count, number, object, line)?;
                    count += 1;
                    Ok(())
                };
                self.objects(start, number, &mut take, last_seq)?;
                last_seq = seq;
            }
            start = looked.next;
            number += 1;
        }
        Ok(last_seq)
    }

    /// Visits the objects of one line, up to the first that cannot be read.
    fn objects(
        &self,
        start: u64,
        number: u64,
        visit: &mut dyn FnMut(&Object, &Line<'_>) -> Result<()>,
        mut last_seq: u64,
    ) -> Result<Looked> {
        let (mut at, mut is_split) = (start, false);
        loop {
            let mut scan = Scan::new(Part::new(&self.file.handle, at..self.len), at, &SHAPE);
            let stopped = loop {
                match scan.next() {
                    Ok(Some(Item::Object(object))) => {
                        let line = match lines::read(object, number) {
                            Ok(line) if line.seq.get() > last_seq => line,
                            Ok(line) => {
                                let seq = line.seq;
                                break (
                                    object.span().end,
                                    format!("seq {seq} does not rise"),
                                    false,
                                );
                            }
                            Err(reason) => break (object.span().end, reason, false),
                        };
                        last_seq = line.seq.get();
                        visit(object, &line)?;
                    }
                    Ok(Some(Item::Line { span, .. })) => {
                        return Ok(Looked { next: span.end, last_seq: Ok(last_seq), is_split });
                    }
                    Ok(None) => break (self.len, "it is not whole".to_owned(), false),
                    Err(ScanError::Read { source, .. }) => {
                        return Err(Error::io("read", self.path, source));
                    }
                    Err(ScanError::Malformed { offset, reason, .. }) => {
                        let is_glued = reason == Reason::TrailingText;
                        break (offset, format!("{reason}, at byte {offset}"), is_glued);
                    }
                }
            };
            let (offset, what, is_glued) = stopped;
            if !is_glued {
                let next = next_line(&self.file.handle, self.path, offset..self.len)?;
                return Ok(Looked { next, last_seq: Err(What::Other(what)), is_split });
            }
            at = offset;
            is_split = true;
        }
    }

    /// How many writes a line holds that is left out: one where it is no JSON.
    fn writes(&self, line: Range<u64>) -> Result<u64> {
        let (mut at, mut writes) = (line.start, 0);
        loop {
            let rest = Part::new(&self.file.handle, at..line.end);
            let mut scan = Scan::new(rest, at, &SHAPE);
            at = loop {
                match scan.next() {
                    Ok(Some(Item::Object(_))) => writes += 1,
                    Ok(Some(Item::Line { .. })) => return Ok(writes.max(1)),
                    Err(ScanError::Read { source, .. }) => {
                        return Err(Error::io("read", self.path, source));
                    }
                    Err(ScanError::Malformed { offset, reason: Reason::TrailingText, .. }) => {
                        break offset;
                    }
                    Ok(None) | Err(ScanError::Malformed { .. }) => return Ok(1),
                }
            };
        }
    }

    fn failed(&self) -> impl Fn(SpillError) -> Error {
        let scratch = self.scratch.to_owned();
        move |error| spill_error(&scratch, error)
    }

    /// Finds the writes that repeat an id or name an entry that is not there before them, and
    /// the highest seq.
    fn faults(&mut self, findings: &mut Findings) -> Result<(Sorted<FAULT_BYTES>, u64)> {
        let keys = Keys::new();
        let mut names = Sorter::<NAME_BYTES>::new(self.scratch, SORT_BUDGET);
        let failed = self.failed();
        let last_seq = self.each(Some(findings), &mut |count, _, object, line| {
            let mut name = |id: &str, role| {
                let name = pack(&[&keys.entry(id), &[role], &count.to_be_bytes()]);
                names.push(name).map_err(&failed)
            };
            match &line.what {
                lines::What::Entry { id, parent, .. } => {
                    name(id, OWN)?;
                    parent.map_or(Ok(()), |parent| name(parent, NAMED))
                }
                lines::What::Usage { id, .. } => name(id, OWN),
                lines::What::Store { .. } => match self.tip(object, line)? {
                    Some(tip) => name(&tip, NAMED),
                    None => Ok(()),
                },
            }
        })?;
        let mut faults = Sorter::<FAULT_BYTES>::new(self.scratch, SORT_BUDGET);
        let mut owner: Option<([u8; HASH_BYTES], u64)> = None;
        for name in names.finish().map_err(self.failed())? {
            let name = name.map_err(self.failed())?;
            let hash: [u8; HASH_BYTES] = part(&name, 0);
            let ([role], number) = (part(&name, HASH_BYTES), u64_at(&name, HASH_BYTES + 1));
            let known = owner.filter(|(of, _)| *of == hash).map(|(_, number)| number);
            let fault = match (role, known) {
                (OWN, None) => {
                    owner = Some((hash, number));
                    continue;
                }
                (OWN, Some(_)) => REPEATED,
                (_, Some(known)) if known < number => continue,
                _ => UNKNOWN,
            };
            faults.push(pack(&[&number.to_be_bytes(), &[fault]])).map_err(self.failed())?;
        }
        Ok((faults.finish().map_err(self.failed())?, last_seq))
    }

    /// The entry that a tip names, if the write sets one.
    fn tip(&self, object: &Object, line: &Line<'_>) -> Result<Option<String>> {
        match (&line.what, object.member(VALUE)) {
            (
                lines::What::Store { kind: StoreKind::Value, namespace, value: Some(_), .. },
                Some(value),
            ) if *namespace == BRANCH_TIP => {
                let text = read_text(&*self.file.handle, self.path, Span::from(value.span))?;
                Ok(serde_json::from_str(&text).ok())
            }
            _ => Ok(None),
        }
    }

    /// Copies the writes that are taken; tells how many.
    fn copy(
        &mut self,
        faults: Sorted<FAULT_BYTES>,
        findings: &mut Findings,
        out: &mut dyn io::Write,
    ) -> Result<u64> {
        let mut faults = faults.peekable();
        let mut window = Window::new(self.file.handle.clone());
        let failed = |error: io::Error| Error::io("copy", self.path, error);
        let spilled = self.failed();
        let mut taken = 0;
        // The id of the last entry that was copied, as JSON.
        let mut last = "null".to_owned();
        self.each(None, &mut |count, number, object, line| {
            let mut fault = None;
            let is_here = |found: &Result<[u8; FAULT_BYTES], _>| {
                found.as_ref().map_or(true, |found| u64_at(found, 0) == count)
            };
            while let Some(found) = faults.next_if(is_here) {
                let [what] = part(&found.map_err(&spilled)?, 8);
                fault = Some(fault.map_or(what, |other: u8| other.min(what)));
            }
            let replaced = match (&line.what, fault) {
                (_, Some(REPEATED)) => {
                    findings.lose(number, What::RepeatedId, 1);
                    return Ok(());
                }
                (lines::What::Entry { .. }, Some(_)) => {
                    findings.add(number, What::MissingParent, Repair::Reattached);
                    object.member(PARENT_ID)
                }
                (_, Some(_)) => {
                    findings.add(number, What::UnknownReference, Repair::Reattached);
                    object.member(VALUE)
                }
                (_, None) => None,
            };
            let Range { start, end } = object.span();
            match replaced {
                None => window.copy(Span::from(start..end), out).map_err(failed)?,
                Some(member) => {
                    window.copy(Span::from(start..member.span.start), out).map_err(failed)?;
                    out.write_all(last.as_bytes()).map_err(failed)?;
                    window.copy(Span::from(member.span.end..end), out).map_err(failed)?;
                }
            }
            out.write_all(b"\n").map_err(failed)?;
            if let lines::What::Entry { id, .. } = &line.what {
                last = quoted(id);
            }
            taken += 1;
            Ok(())
        })?;
        Ok(taken)
    }
}
