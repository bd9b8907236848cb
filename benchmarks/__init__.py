"""The measures that a change must not worsen: labkit beside what it is compared with, in one run on one machine."""
