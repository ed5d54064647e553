//! The cloud that misbehaves on demand: in the process or over HTTP.
