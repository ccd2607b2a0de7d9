//! How many workers there may be.

use crate::config::Settings;

/// The most workers that may be wanted of a server that was started with `workers`.
pub(super) fn most(workers: usize) -> usize {
    workers.max(1).saturating_add(16)
}

/// Room for workers on the scoreboard: twice as many as wanted for replacements that start next to the workers that they replace,
/// and as many again for workers with slow requests to finish.
pub(super) fn room(workers: usize) -> usize {
    most(workers).saturating_mul(4)
}

/// How many workers are wanted, of now `present`, after signals that ask for one more and for one fewer.
pub(super) fn changed(settings: &Settings, present: usize, more: usize, fewer: usize) -> usize {
    present.saturating_add(more).saturating_sub(fewer).clamp(1, most(settings.workers))
}

/// Whether there can be that many `workers`; returns the number.
///
/// # Errors
/// Says why not, and how many there can be.
pub(super) fn check(settings: &Settings, workers: usize) -> Result<usize, String> {
    if settings.edges_wanted() == 0 && settings.sockets_of_address() > 1 {
        let opened = settings.workers;
        return Err(format!("the number of workers stays: the sockets are opened for {opened} of them (--accept)"));
    }
    let most = most(settings.workers);
    match workers {
        0 => Err("there must be a worker".to_owned()),
        _ if workers > most => Err(format!(
            "there can be at most {most} workers, 16 more than the server was started with: start it with more (--workers)"
        )),
        _ => Ok(workers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AcceptModel;

    #[test]
    fn a_server_grows_by_sixteen_workers_unless_each_has_its_sockets() {
        let mut settings = Settings { workers: 2, ..Settings::default() };
        assert_eq!(check(&settings, 18), Ok(18));
        assert!(check(&settings, 19).is_err() && check(&settings, 0).is_err());
        assert_eq!(room(2), 72);
        assert_eq!(
            [(2, 1, 0), (2, 99, 0), (2, 0, 9), (5, 1, 3)].map(|(now, more, fewer)| changed(&settings, now, more, fewer)),
            [3, 18, 1, 3]
        );
        settings.accept = AcceptModel::Own;
        assert!(check(&settings, 2).is_err());
    }
}
