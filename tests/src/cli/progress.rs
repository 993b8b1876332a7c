//! Progress bars on a terminal's stderr; nothing anywhere else.

use std::io::IsTerminal as _;
use std::time::Duration;

use forkline_engines::{Observer, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that counts bytes.
pub(super) fn bar(bytes: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
    if std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    let style = ProgressStyle::with_template(template).expect("templates are constants");
    bar.set_style(style);
    bar
}

/// Shows how far a fork has come.
pub(super) struct ForkBar(ProgressBar);

impl ForkBar {
    pub(super) fn new() -> Self {
        Self(bar(0, "{bar:30} {bytes}/{total_bytes} {msg} {eta}"))
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Observer for ForkBar {
    fn progress(&self, progress: Progress) {
        self.0.set_length(progress.bytes_total);
        self.0.set_position(progress.bytes_done);
        self.0.set_message(format!("{} rows", progress.rows_done));
    }
}
