"""Certificates: the answers that shares are estimated from, hashes of what one covers, and those issued.

``blind_queue`` is the queue of blind tasks, ``label_answers`` reads answers, ``hashes`` digests labels and
evidence, ``issued`` keeps certificates.
"""
