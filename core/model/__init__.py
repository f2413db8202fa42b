"""Pure values and functions: events, state machines, evidence, policy, `decide()`, errors. No input or output happens here."""
