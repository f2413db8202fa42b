"""Reports for people who were not there: one set of facts, taken from one state of the ledger, and one renderer a format.

`collect` takes the facts, `answers` says them in sentences; the renderers (`html`, `lines`, `sheets`, `bom`, `statement`) add nothing.
"""
