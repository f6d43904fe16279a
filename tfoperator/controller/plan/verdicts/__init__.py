"""The stage of a job: whether it continues, is suspended, has ended, or has an invalid spec."""
