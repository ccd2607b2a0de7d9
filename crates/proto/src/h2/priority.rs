//! Priorities of responses (RFC 9218). Those of RFC 7540 are obsolete and ignored (RFC 9113, section 5.3).

/// The urgency of a response, and whether the client can use parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Responses of the same urgency may be sent in turn.
    pub incremental: bool,
}

/// The defaults of RFC 9218, section 4, but incremental: a client that sends no priority does not know these defaults, and
/// expects its responses to share the connection.
impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: true }
    }
}

impl Priority {
    /// Reads the value of a Priority field or of a PRIORITY_UPDATE frame. Members and values that are unknown or invalid are
    /// ignored (section 4). `None` if neither parameter is there.
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let (mut urgency, mut incremental) = (None, None);
        for member in value.split(|&byte| byte == b',') {
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] => urgency = Some(digit - b'0'),
                b"i" | b"i=?1" => incremental = Some(true),
                b"i=?0" => incremental = Some(false),
                _ => {}
            }
        }
        let is_said = urgency.is_some() || incremental.is_some();
        is_said.then(|| Self { urgency: urgency.unwrap_or(3), incremental: incremental.unwrap_or(false) })
    }
}

#[cfg(test)]
mod tests {
    use super::Priority;

    #[test]
    fn values() {
        let read = |value: &str| Priority::read(value.as_bytes()).map(|read| (read.urgency, read.incremental));
        for (value, wanted) in [
            ("u=0", Some((0, false))),
            ("u=7, i", Some((7, true))),
            ("i", Some((3, true))),
            ("i=?1,u=5", Some((5, true))),
            ("i=?0", Some((3, false))),
            (" u=2 ;x=1 ,\ti;y", Some((2, true))),
            ("u=1, u=4", Some((4, false))),
            ("u=8", None),
            ("u=-1", None),
            ("u=10", None),
            ("U=1", None),
            ("i=1", None),
            ("", None),
            ("foo=\"u=1\"", None),
            ("u=9, i", Some((3, true))),
        ] {
            assert_eq!(read(value), wanted, "{value}");
        }
    }
}
