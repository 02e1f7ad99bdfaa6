"""Certificates: the answers that shares are estimated from, hashes of what one covers, and those issued.

``label_answers`` reads answers, ``hashes`` digests labels and evidence, ``issued`` keeps certificates.
"""
