//! The Lua host: scripts in persistent states, loaded on demand, kept by popularity and age.
