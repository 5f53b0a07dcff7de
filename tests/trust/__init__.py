"""Tests that nothing is read outside, nothing is lost and nothing hangs; most run in processes of their own."""
