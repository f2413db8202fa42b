"""The ledger: schema, append, chain, projections, audit queries. The only room that speaks SQL."""
