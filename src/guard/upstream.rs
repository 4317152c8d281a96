//! What the agent hears about its caller: fields that are passed on, that say who calls, and that are the gateway's own.
