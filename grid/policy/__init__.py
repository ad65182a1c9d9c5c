"""What a member must have for each role, the limits of leases, and how members are grouped by speed."""
