"""The connector `nexmark`: the events of the Nexmark benchmark, people, auctions and bids on an auction site."""
