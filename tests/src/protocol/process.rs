//! A program on the other side of two pipes, with a time limit for every call.
//!
//! A thread writes to it and a thread reads from it, so that neither a program that reads
//! nothing nor one that says nothing can hold the caller longer than the limit. A program that
//! failed once is ended and not asked again.

use std::io::{BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use forkline_model::Json;
use forkline_model::address::shortened;
use tempfile::TempDir;

use super::LINE_BYTES_MAX;
use super::command::ProtocolCommand;
use super::connection::one_line;
use super::lines::{Line, next_line};
use super::message::{Refusal, Response};
use crate::driver::Fault;

/// How many lines may wait to be looked at; the program waits when there are more.
const LINES_AHEAD: usize = 64;

/// The program and both ends of its pipes.
pub(super) struct Process {
    child: Child,
    requests: Option<Sender<String>>,
    answers: Receiver<Result<Line, String>>,
    call_limit: Duration,
    next_id: u64,
    failed: Option<Fault>,
    // Dropped last: the program's folder.
    _folder: Option<TempDir>,
}

/// What a call gave.
pub(super) type Called = Result<Json, Refusal>;

impl Process {
    /// Starts the program.
    ///
    /// # Errors
    /// The system does not start it.
    pub(super) fn start(command: &ProtocolCommand) -> Result<Self, Fault> {
        let folder = if command.wants_folder() {
            let made = TempDir::with_prefix("forkline-");
            Some(made.map_err(|error| Fault::new(format!("cannot make a folder: {error}")))?)
        } else {
            None
        };
        let path = folder.as_ref().map(|folder| folder.path().to_string_lossy().into_owned());
        let words = command.words(path.as_deref().unwrap_or_default());
        let (program, arguments) = words.split_first().expect("a command has a word");
        let cannot = |what: &str| Fault::new(format!("cannot start the engine {program}: {what}"));
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| cannot(&error.to_string()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped");
        };
        let (requests, to_write) = channel();
        let (read, answers) = sync_channel(LINES_AHEAD);
        thread::spawn(move || write_requests(stdin, &to_write));
        thread::spawn(move || read_answers(stdout, &read));
        Ok(Self {
            child,
            requests: Some(requests),
            answers,
            call_limit: command.call_limit(),
            next_id: 1,
            failed: None,
            _folder: folder,
        })
    }

    /// Sends a request and waits for its answer; rows before it are handed over one by one.
    ///
    /// # Errors
    /// The program cannot be asked any more. Every later call says the same.
    pub(super) fn call(
        &mut self,
        name: &str,
        op: String,
        on_row: &mut dyn FnMut(Json) -> Result<(), Fault>,
    ) -> Result<Called, Fault> {
        if let Some(fault) = &self.failed {
            return Err(fault.clone());
        }
        let id = self.next_id;
        self.next_id += 1;
        let line = format!("{{\"id\":{id},\"op\":{}}}\n", one_line(op));
        // The writer ends only with the program, which the answer will tell.
        let _ = self.requests.as_ref().map(|requests| requests.send(line));
        self.wait(id, on_row).map_err(|what| {
            self.end();
            let fault =
                Fault::new(format!("in answer to {name} (request {id}), the engine {what}"));
            self.failed = Some(fault.clone());
            fault
        })
    }

    fn wait(
        &mut self,
        id: u64,
        on_row: &mut dyn FnMut(Json) -> Result<(), Fault>,
    ) -> Result<Called, String> {
        let until = Instant::now() + self.call_limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = match self.answers.recv_timeout(left) {
                Ok(Ok(Line::Bytes(line))) => line,
                Ok(Ok(Line::TooLong)) => {
                    return Err(format!("sent a line of more than {LINE_BYTES_MAX} bytes"));
                }
                Ok(Err(error)) => return Err(format!("cannot be read: {error}")),
                Ok(Ok(Line::End)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("closed its output ({})", self.end()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("said nothing final within {:?}", self.call_limit));
                }
            };
            let response: Response = serde_json::from_slice(&line).map_err(|error| {
                let line = String::from_utf8_lossy(&line);
                format!("sent what is no answer ({error}): {}", shortened(&line))
            })?;
            if response.id != Some(id) {
                let line = String::from_utf8_lossy(&line);
                return Err(format!("answered another request: {}", shortened(&line)));
            }
            match response {
                Response { ok: Some(ok), row: None, error: None, .. } => return Ok(Ok(ok)),
                Response { ok: None, row: None, error: Some(error), .. } => return Ok(Err(error)),
                Response { ok: None, row: Some(row), error: None, .. } => {
                    on_row(row).map_err(|fault| fault.0)?;
                }
                _ => return Err("sent not exactly one of ok, row and error".to_owned()),
            }
        }
    }

    /// Ends the program, if it is still there, and says how it ended.
    fn end(&mut self) -> String {
        self.requests = None;
        // It may have ended by itself, and then its own status stands.
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => format!("no status: {error}"),
        }
    }
}

impl Drop for Process {
    /// Closes the connection, which is the program's sign to end, and ends it after the limit.
    fn drop(&mut self) {
        self.requests = None;
        if self.failed.is_none() {
            let until = Instant::now() + self.call_limit;
            let left = || until.saturating_duration_since(Instant::now());
            while matches!(
                self.answers.recv_timeout(left()),
                Ok(Ok(Line::Bytes(_) | Line::TooLong))
            ) {}
        }
        self.end();
    }
}

fn write_requests(mut stdin: impl Write, requests: &Receiver<String>) {
    for line in requests {
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_answers(stdout: impl std::io::Read, answers: &SyncSender<Result<Line, String>>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let line = next_line(&mut stdout, LINE_BYTES_MAX).map_err(|error| error.to_string());
        let is_last = !matches!(line, Ok(Line::Bytes(_) | Line::TooLong));
        if answers.send(line).is_err() || is_last {
            return;
        }
    }
}
