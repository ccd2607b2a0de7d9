//! What a web server in front says of a request in variables of its own: the meta-variables of CGI (RFC 3875, section 4.1) and
//! whatever else it was configured to pass on.

use crate::Span;

/// What a web server wants from a FastCGI application (FastCGI 1.0, section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A response: what CGI programs do.
    #[default]
    Responder,
    /// A decision whether the request may go on.
    Authorizer,
    /// A response made from a file that the web server sends along.
    Filter,
}

impl Role {
    /// As FCGI_ROLE has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Responder => "RESPONDER",
            Self::Authorizer => "AUTHORIZER",
            Self::Filter => "FILTER",
        }
    }
}

/// Where a variable stands in the bytes that a request's variables arrived in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The name, as sent.
    pub name: Span,
    /// The value, as sent.
    pub value: Span,
    /// Which of the well-known ones it is, if one.
    pub known: Option<KnownVariable>,
}

macro_rules! known_variables {
    ($($variant:ident $name:literal,)*) => {
        /// The variables that the server itself looks at, and those that nearly every request comes with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum KnownVariable {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl KnownVariable {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The variable of that name. Names are case-sensitive (FastCGI 1.0, section 5.2, and every web server).
            #[inline]
            #[must_use]
            pub fn lookup(name: &[u8]) -> Option<Self> {
                // Compiled to a comparison of the length first.
                match name {
                    $(name if name == $name.as_bytes() => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

known_variables! {
    RequestMethod "REQUEST_METHOD",
    ScriptName "SCRIPT_NAME",
    PathInfo "PATH_INFO",
    RequestUri "REQUEST_URI",
    QueryString "QUERY_STRING",
    ServerName "SERVER_NAME",
    ServerPort "SERVER_PORT",
    ServerProtocol "SERVER_PROTOCOL",
    RemoteAddr "REMOTE_ADDR",
    RemotePort "REMOTE_PORT",
    ContentType "CONTENT_TYPE",
    ContentLength "CONTENT_LENGTH",
    ScriptFilename "SCRIPT_FILENAME",
    ServerSoftware "SERVER_SOFTWARE",
    Https "HTTPS",
    GatewayInterface "GATEWAY_INTERFACE",
    DocumentUri "DOCUMENT_URI",
    DocumentRoot "DOCUMENT_ROOT",
    RequestScheme "REQUEST_SCHEME",
    RedirectStatus "REDIRECT_STATUS",
    PathTranslated "PATH_TRANSLATED",
    ServerAddr "SERVER_ADDR",
    RemoteUser "REMOTE_USER",
    AuthType "AUTH_TYPE",
}
