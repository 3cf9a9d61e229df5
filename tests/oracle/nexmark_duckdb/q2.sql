SELECT auction, price FROM bid WHERE auction % 3 = 0
