"""Flow control: priority and fairness of requests, with seats borrowed between priority levels."""
