//! The figures as comma-separated values, one line for each thing measured, so that everything in the table can be verified.

use super::Results;
use std::fmt::Write as _;

/// One line for each server, cell and round. Times in microseconds, memory in KiB.
pub fn rounds(results: &Results) -> String {
    let mut text = String::from(
        "cell,server,round,requests,bytes,duration_us,cpu_user_us,cpu_system_us,p50_us,p99_us,\
         connect,read,write,status,timeout,short,memory_kib,newcomer_us\n",
    );
    for result in &results.cells {
        for entry in &result.entries {
            for (number, round) in entry.rounds.iter().enumerate() {
                let Some(round) = round else { continue };
                let outcome = &round.outcome;
                let failures = outcome.failures;
                let figures = [
                    Some(outcome.requests.into()),
                    Some(outcome.bytes.into()),
                    Some(outcome.duration.as_micros()),
                    Some(round.cpu.user.as_micros()),
                    Some(round.cpu.system.as_micros()),
                    outcome.median.map(|time| time.as_micros()),
                    outcome.p99.map(|time| time.as_micros()),
                    Some(failures.connect.into()),
                    Some(failures.read.into()),
                    Some(failures.write.into()),
                    Some(failures.status.into()),
                    Some(failures.timeout.into()),
                    Some(failures.short.into()),
                    Some(entry.memory.into()),
                ];
                let shown = |figure: &Option<u128>| figure.map_or_else(String::new, |figure| figure.to_string());
                let figures: Vec<String> = figures.iter().map(shown).collect();
                let newcomer = entry.newcomer.map_or_else(String::new, |wait| wait.as_micros().to_string());
                let (cell, server) = (result.cell.name, &entry.name);
                let _ = writeln!(text, "{cell},{server},{},{},{newcomer}", number + 1, figures.join(","));
            }
        }
    }
    text
}

/// One line for each server and each count: the counted unit, and its amount for a request.
pub fn counts(results: &Results) -> String {
    let mut text = String::from("server,counted,per_request\n");
    for count in &results.counts {
        if let Some(Ok(instructions)) = count.instructions {
            let _ = writeln!(text, "{},instructions,{instructions:.1}", count.name);
        }
        if let Some(Ok(calls)) = &count.system_calls {
            let _ = writeln!(text, "{},system calls,{:.4}", count.name, calls.total);
            for (name, per_request) in &calls.by_name {
                let _ = writeln!(text, "{},{name},{per_request:.4}", count.name);
            }
        }
    }
    text
}
