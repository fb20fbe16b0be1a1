"""Attacks on a node: each against a real process, while another key goes on working."""
